// Package proc runs commands: process groups, output, limits, background processes and shell state.
package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/reap"
)

// Runtime is what all commands share.
type Runtime struct {
	Reaper     *reap.Reaper
	ImageEnv   []string // the environment of PID 1
	WorkingDir string   // the working directory of PID 1
	UID, GID   int
	Executable string // the runner's own path, for shells to report their state
	victim     victimScore
	oom        *oomCounter
	states     stateTable
}

// NewRuntime takes its environment and working directory as the image's. Call it before the process gives up being
// dumpable: afterwards files under /proc/self no longer open.
func NewRuntime(reaper *reap.Reaper) *Runtime {
	workingDir, err := os.Getwd()
	if err != nil {
		workingDir = "/"
	}
	executable, _ := os.Executable()
	return &Runtime{
		Reaper:     reaper,
		ImageEnv:   os.Environ(),
		WorkingDir: workingDir,
		UID:        os.Geteuid(),
		GID:        os.Getegid(),
		Executable: executable,
		victim:     openVictimScore(),
		oom:        openOomCounter(),
		states:     stateTable{states: map[string]state{}},
	}
}

// Command is what to run.
type Command struct {
	Argv       []string          `json:"argv,omitempty"`
	Shell      string            `json:"shell,omitempty"` // "", "sh", "bash" or "auto"; then Script is run
	Script     string            `json:"script,omitempty"`
	Cwd        string            `json:"cwd,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	CleanEnv   bool              `json:"cleanEnv,omitempty"`
	User       string            `json:"user,omitempty"`
	ShellState string            `json:"shellState,omitempty"`

	Generation int  `json:"-"` // of the moment the request came: see reap.Reaper
	keepState  bool // starts from the shell state and leaves it as it is
}

// started is a running process with its pipes.
type started struct {
	child     *reap.Child
	report    *HeadTail // what the shell reports of its state, nil where none was asked for
	reportEnd *pipe
	nonce     string
}

// stateDescriptor is high, so that scripts that use descriptors of their own do not meet it.
const stateDescriptor = 99

// start resolves and runs a command with the given standard descriptors, which stay open here.
func (rt *Runtime) start(command Command, standard [3]int) (*started, error) {
	user, err := LookUpUser(command.User)
	if err != nil {
		return nil, err
	}
	carried := rt.states.get(command.ShellState)
	environment := rt.environment(command, user, carried)
	cwd, err := rt.directory(command, carried)
	if err != nil {
		return nil, err
	}
	path, argv, nonce, err := rt.resolve(command, environment, cwd)
	if err != nil {
		return nil, err
	}
	run := &started{nonce: nonce}
	files := []uintptr{uintptr(standard[0]), uintptr(standard[1]), uintptr(standard[2])}
	stateEnd := -1
	if nonce != "" {
		run.report = NewHeadTail(2 * maxStateBytes)
		if run.reportEnd, stateEnd, err = newPipe(run.report); err != nil {
			return nil, fault.NotStarted(path, err)
		}
		for len(files) < stateDescriptor {
			files = append(files, ^uintptr(0))
		}
		files = append(files, uintptr(stateEnd))
		defer syscall.Close(stateEnd)
	}
	attributes := &syscall.ProcAttr{
		Dir:   cwd,
		Env:   environment,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Credential: user.Credential},
	}
	run.child, err = rt.fork(command.Generation, path, argv, attributes)
	if err != nil {
		if run.reportEnd != nil {
			run.reportEnd.abandon()
		}
		return nil, notStarted(path, cwd, err)
	}
	return run, nil
}

func (rt *Runtime) fork(generation int, path string, argv []string, attributes *syscall.ProcAttr) (*reap.Child, error) {
	child, err := rt.Reaper.Start(generation, path, argv, attributes, rt.victim.raise, rt.victim.restore)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without an interpreter line runs under sh, as execvp does it.
		argv = append([]string{"/bin/sh", path}, argv[1:]...)
		child, err = rt.Reaper.Start(generation, "/bin/sh", argv, attributes, rt.victim.raise, rt.victim.restore)
	}
	if err == nil {
		rt.victim.mark(child.Pid)
	}
	return child, err
}

// notStarted blames the directory where that is what is missing: fork reports one errno for both.
func notStarted(path, cwd string, err error) error {
	if info, statErr := os.Stat(cwd); statErr != nil {
		return fault.NotStarted(cwd, statErr)
	} else if !info.IsDir() {
		return fault.NotStarted(cwd, unix.ENOTDIR)
	}
	failure := fault.NotStarted(path, err)
	switch failure.Errno {
	case "EACCES":
		failure.Message += ", for the program or for the directory " + cwd
	case "ENOENT":
		if missing := missingInterpreter(path, cwd); missing != "" {
			failure.Message = "it needs " + missing + ", which the image does not have"
		}
	}
	return failure
}

func (rt *Runtime) directory(command Command, carried state) (string, error) {
	base := rt.WorkingDir
	if carried.cwd != "" {
		base = nearestDirectory(carried.cwd)
	}
	if command.Cwd == "" {
		return base, nil
	}
	if filepath.IsAbs(command.Cwd) {
		return command.Cwd, nil
	}
	return base + "/" + command.Cwd, nil
}

// nearestDirectory is what is left of a carried directory that may be gone: a shell that sat in it could go on, too.
func nearestDirectory(path string) string {
	for path != "/" {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

func (rt *Runtime) environment(command Command, user User, carried state) []string {
	var base []string
	switch {
	case command.CleanEnv:
	case carried.env != nil:
		base = carried.env
	default:
		base = rt.ImageEnv
	}
	changes := make(map[string]string, len(command.Env)+3)
	if user.Name != "" && carried.env == nil {
		changes["HOME"], changes["USER"], changes["LOGNAME"] = user.Home, user.Name, user.Name
	}
	for name, value := range command.Env {
		changes[name] = value
	}
	environment := make([]string, 0, len(base)+len(changes))
	for _, entry := range base {
		name, _, _ := strings.Cut(entry, "=")
		if _, changed := changes[name]; !changed {
			environment = append(environment, entry)
		}
	}
	for name, value := range changes {
		environment = append(environment, name+"="+value)
	}
	return environment
}

// resolve finds the program and, for a shell, wraps the script so that its state is reported at its end.
func (rt *Runtime) resolve(command Command, environment []string, cwd string) (path string, argv []string, nonce string, err error) {
	if command.Shell == "" {
		if len(command.Argv) == 0 || command.Argv[0] == "" {
			return "", nil, "", fault.New(fault.InvalidRequest, "argv is empty: give a program, or shell and script")
		}
		path, err = lookPath(command.Argv[0], environment, cwd)
		return path, command.Argv, "", err
	}
	path, err = findShell(command.Shell, environment, cwd)
	if err != nil {
		return "", nil, "", err
	}
	script := command.Script
	if command.ShellState != "" && !command.keepState {
		nonce = newNonce()
		// On the script's own first line, so that the shell's messages count lines as the script's author does.
		script = "trap '" + strings.ReplaceAll(rt.Executable, "'", `'\''`) + " state " +
			strconv.Itoa(stateDescriptor) + " " + nonce + " 2>/dev/null || :' EXIT; " + script
	}
	return path, []string{filepath.Base(path), "-c", script}, nonce, nil
}

func findShell(name string, environment []string, cwd string) (string, error) {
	candidates := map[string][]string{"sh": {"sh"}, "bash": {"bash"}, "auto": {"bash", "sh"}}[name]
	if candidates == nil {
		return "", fault.New(fault.InvalidRequest, "shell %q: use sh, bash or auto", name)
	}
	for _, candidate := range candidates {
		if path, err := lookPath(candidate, environment, cwd); err == nil {
			return path, nil
		}
		for _, path := range []string{"/bin/" + candidate, "/usr/bin/" + candidate} {
			if unix.Access(path, unix.X_OK) == nil {
				return path, nil
			}
		}
	}
	return "", &fault.Error{Reason: fault.CommandNotStarted, Errno: "ENOENT", Path: "/bin/sh",
		Message: "the image has no shell: no " + strings.Join(candidates, ", no ") + " on its PATH, in /bin or in /usr/bin"}
}

// lookPath searches the PATH that the command itself will have.
func lookPath(name string, environment []string, cwd string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, entry := range environment {
		if value, found := strings.CutPrefix(entry, "PATH="); found {
			search = value
		}
	}
	denied := false
	for _, directory := range filepath.SplitList(search) {
		if !filepath.IsAbs(directory) {
			directory = filepath.Join(cwd, directory)
		}
		path := filepath.Join(directory, name)
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return path, nil
		}
		denied = true
	}
	if denied {
		return "", fault.NotStarted(name, unix.EACCES)
	}
	return "", &fault.Error{Reason: fault.CommandNotStarted, Errno: "ENOENT", Path: name, Message: "not found in PATH " + strconv.Quote(search)}
}
