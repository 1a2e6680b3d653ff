package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/reap"
)

var testRuntime *Runtime

func TestMain(m *testing.M) {
	// The shells under test run this program as `runner state`.
	if len(os.Args) > 1 && os.Args[1] == "state" {
		os.Exit(ReportState(os.Args[2:]))
	}
	signal.Ignore(syscall.SIGHUP)
	os.Setenv("IMAGE", "yes")
	testRuntime = NewRuntime(reap.New())
	os.Exit(m.Run())
}

func run(t *testing.T, request ExecRequest, stdin string) (*ExecResult, string, string) {
	t.Helper()
	if request.OutputLimitBytes == 0 {
		request.OutputLimitBytes = 1 << 20
	}
	if request.TimeoutSeconds == 0 {
		request.TimeoutSeconds = 20
	}
	result, output, err := testRuntime.Exec(request, []byte(stdin), func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	whole := join(output)
	return result, string(whole[:result.Stdout.KeptBytes]), string(whole[result.Stdout.KeptBytes:])
}

func script(text string) ExecRequest {
	return ExecRequest{Command: Command{Shell: "sh", Script: text}}
}

func reasonOf(err error) (string, string) {
	var typed *fault.Error
	if errors.As(err, &typed) {
		return typed.Reason, typed.Errno
	}
	return "", ""
}

// nap is a number of seconds that only this run's processes sleep.
func nap(seconds int) string { return fmt.Sprintf("%d.%d", seconds, os.Getpid()) }

func alive(pattern string) int {
	count := 0
	for _, process := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.pid))
		if !process.zombie && strings.Contains(string(line), pattern) {
			count++
		}
	}
	return count
}

func TestStreamsAndExitCode(t *testing.T) {
	result, stdout, stderr := run(t, script("printf 'out\\000'; printf err >&2; cat; exit 3"), "input")
	if result.ExitCode != 3 || result.Signal != 0 || stdout != "out\x00input" || stderr != "err" {
		t.Errorf("%+v %q %q", result, stdout, stderr)
	}
	result, _, _ = run(t, script("kill -TERM $$"), "")
	if result.ExitCode != 143 || result.Signal != 15 {
		t.Errorf("%+v", result)
	}
	request := script("printf a; printf b >&2; printf c")
	request.MergeOutput = true
	if _, stdout, _ := run(t, request, ""); stdout != "abc" {
		t.Errorf("%q", stdout)
	}
}

func TestInputThatNobodyReads(t *testing.T) {
	begin := time.Now()
	if result, _, _ := run(t, script("exec true"), strings.Repeat("x", 1<<20)); result.ExitCode != 0 {
		t.Errorf("%+v", result)
	}
	request := script("exec 0<&-; sleep 60")
	request.TimeoutSeconds = 0.2
	if result, _, _ := run(t, request, strings.Repeat("x", 1<<20)); !result.TimedOut {
		t.Errorf("%+v", result)
	}
	if time.Since(begin) > 5*time.Second {
		t.Error("held up by its input")
	}
}

func TestOutputLimitCountsExactly(t *testing.T) {
	request := script("head -c 1000000 /dev/zero; printf end")
	request.OutputLimitBytes = 1000
	result, stdout, _ := run(t, request, "")
	if result.Stdout.TotalBytes != 1_000_003 || result.Stdout.OmittedBytes != 999_003 || len(stdout) != 1000 ||
		!strings.HasSuffix(stdout, "\x00end") {
		t.Errorf("%+v", result.Stdout)
	}
}

func TestBackgroundNeverHoldsTheCall(t *testing.T) {
	for _, text := range []string{"sleep " + nap(61) + " & echo started", "(while :; do echo noise " + nap(61) + "; done) & echo started"} {
		begin := time.Now()
		result, stdout, _ := run(t, script(text), "")
		if result.ExitCode != 0 || !strings.Contains(stdout, "started") || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: %+v after %v", text, result, time.Since(begin))
		}
	}
	// The endless writer must live on: its pipe is still read.
	if alive("echo noise "+nap(61)) == 0 {
		t.Error("the writer died")
	}
	killMatching("sleep\x00"+nap(61), "echo noise "+nap(61))
}

func killMatching(patterns ...string) {
	for _, process := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.pid))
		for _, pattern := range patterns {
			if strings.Contains(string(line), pattern) {
				_ = syscall.Kill(process.pid, syscall.SIGKILL)
			}
		}
	}
}

func TestAllOutputOfTheMainProcessArrives(t *testing.T) {
	// A pipe's worth written at the very end, while somebody else holds the pipe open.
	for range 20 {
		_, stdout, _ := run(t, script("sleep "+nap(62)+" & head -c 65536 /dev/zero"), "")
		if len(stdout) != 65536 {
			t.Fatalf("%d bytes", len(stdout))
		}
	}
	killMatching("sleep\x00" + nap(62))
}

func TestTimeoutKillsTheSessionAndDescendants(t *testing.T) {
	request := script(strings.ReplaceAll(
		"yes >/dev/null & nohup NAP >/dev/null & setsid NAP & (trap '' TERM; NAP) & yes", "NAP", "sleep "+nap(63)))
	request.TimeoutSeconds = 0.5
	result, _, _ := run(t, request, "")
	if !result.TimedOut || result.Signal != 9 || result.DurationSeconds > 5 {
		t.Errorf("%+v", result)
	}
	if left := alive("sleep\x00" + nap(63)); left != 0 {
		t.Errorf("%d processes are left", left)
	}
}

func TestEnvironmentAndDirectory(t *testing.T) {
	directory := t.TempDir()
	request := ExecRequest{Command: Command{Argv: []string{"env"}, Env: map[string]string{"ADDED": "a b"}, Cwd: directory}}
	_, stdout, _ := run(t, request, "")
	if !strings.Contains(stdout, "IMAGE=yes\n") || !strings.Contains(stdout, "ADDED=a b\n") {
		t.Error(stdout)
	}
	request.CleanEnv = true
	if _, stdout, _ := run(t, request, ""); stdout != "ADDED=a b\n" {
		t.Error(stdout)
	}
	request.Argv = []string{"pwd"}
	if _, stdout, _ := run(t, request, ""); strings.TrimSpace(stdout) != directory {
		t.Error(stdout)
	}
}

func TestProgramIsFoundInTheImagesPath(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(directory+"/mytool", []byte("echo tool \"$@\""), 0o755); err != nil {
		t.Fatal(err)
	}
	// Without an interpreter line, too.
	request := ExecRequest{Command: Command{Argv: []string{"mytool", "x"}, Env: map[string]string{"PATH": directory + ":/bin:/usr/bin"}}}
	if _, stdout, _ := run(t, request, ""); stdout != "tool x\n" {
		t.Errorf("%q", stdout)
	}
}

func TestWhatCannotStart(t *testing.T) {
	cases := map[string]struct {
		command       Command
		reason, errno string
	}{
		"no program":    {Command{Argv: []string{"no-such-program"}}, fault.CommandNotStarted, "ENOENT"},
		"no file":       {Command{Argv: []string{"/no/such"}}, fault.CommandNotStarted, "ENOENT"},
		"a directory":   {Command{Argv: []string{"/tmp"}}, fault.CommandNotStarted, "EACCES"},
		"no directory":  {Command{Argv: []string{"true"}, Cwd: "/no/such"}, fault.CommandNotStarted, "ENOENT"},
		"cwd is a file": {Command{Argv: []string{"true"}, Cwd: "/etc/passwd"}, fault.CommandNotStarted, "ENOTDIR"},
		"nothing":       {Command{}, fault.InvalidRequest, ""},
		"empty name":    {Command{Argv: []string{""}}, fault.InvalidRequest, ""},
		"zero byte":     {Command{Argv: []string{"echo", "a\x00b"}}, fault.CommandNotStarted, "EINVAL"},
		"shell":         {Command{Shell: "fish", Script: "x"}, fault.InvalidRequest, ""},
		"user":          {Command{Argv: []string{"true"}, User: "no-such-user"}, fault.InvalidRequest, ""},
	}
	before := descriptors()
	for name, testCase := range cases {
		_, _, err := testRuntime.Exec(ExecRequest{Command: testCase.command}, []byte("in"), func(int) {})
		if reason, errno := reasonOf(err); reason != testCase.reason || errno != testCase.errno {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := descriptors(); after > before {
		t.Errorf("%d descriptors leaked", after-before)
	}
}

func descriptors() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func TestNothingLeaks(t *testing.T) {
	run(t, script("true"), "")
	before := descriptors()
	for range 100 {
		run(t, script("cat; echo x"), "in")
	}
	deadline := time.Now().Add(5 * time.Second)
	for descriptors() > before && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if after := descriptors(); after > before {
		t.Errorf("%d descriptors leaked", after-before)
	}
}

func shells(t *testing.T) map[string]string {
	found := map[string]string{}
	directory := t.TempDir()
	for name, path := range map[string]string{"dash": "/bin/dash", "bash": "/bin/bash", "busybox": "/usr/bin/busybox"} {
		if _, err := os.Stat(path); err != nil {
			t.Logf("no %s here", name)
			continue
		}
		place := directory + "/" + name
		if err := os.Mkdir(place, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, place+"/sh"); err != nil {
			t.Fatal(err)
		}
		found[name] = place + ":" + os.Getenv("PATH")
	}
	return found
}

func TestShellStateIsCarried(t *testing.T) {
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			directory := t.TempDir()
			step := func(text string, wantCode int, want string) *ExecResult {
				t.Helper()
				request := script(text)
				request.ShellState = shell
				request.Env = map[string]string{"PATH": path, "ONCE": "call"}
				result, stdout, stderr := run(t, request, "")
				if result.ExitCode != wantCode || stdout != want {
					t.Errorf("%s: %d %q %q", text, result.ExitCode, stdout, stderr)
				}
				return result
			}
			step("cd "+directory+"; export A='x\ny'; B=local; mkdir sub; exit 3", 3, "")
			step("printf '%s|%s|%s' \"$A\" \"$B\" \"$PWD\"", 0, "x\ny||"+directory)
			step("cd sub && unset A && sleep "+nap(64)+" & :", 0, "")
			step("cd sub; false", 1, "")
			step("pwd; kill -9 $$", 137, directory+"/sub\n")
			step("exec 3>/dev/null 9>/dev/null; cd ..; trap 'echo own' INT; echo $ONCE", 0, "call\n")
			step("cd sub; exec pwd", 0, directory+"/sub\n")
			step("cd sub; rmdir ../sub", 0, "")
			result := step("pwd", 0, directory+"\n")
			if result.Cwd != directory {
				t.Errorf("cwd %q", result.Cwd)
			}
			step("echo 'unfinished", 2, "")
			step("set -e; export C=3; false", 1, "")
			step("echo $C", 0, "3\n")
			step("exit_with() { return 7; }; exit_with", 7, "")
		})
	}
	killMatching("sleep\x00" + nap(64))
}

func TestALargeEnvironmentIsCarried(t *testing.T) {
	request := script("export BIG=$(head -c 100000 /dev/zero | tr '\\0' x); cd /tmp")
	request.ShellState = "large"
	run(t, request, "")
	request = script("echo ${#BIG}")
	request.ShellState = "large"
	if _, stdout, _ := run(t, request, ""); stdout != "100000\n" {
		t.Errorf("%q", stdout)
	}
}

func TestUser(t *testing.T) {
	request := ExecRequest{Command: Command{Argv: []string{"sh", "-c", "id -u; id -g; echo $HOME"}, User: "nobody"}}
	if _, stdout, _ := run(t, request, ""); !strings.HasPrefix(stdout, "65534\n65534\n/nonexistent") {
		t.Errorf("%q", stdout)
	}
	request.User = "1234:5678"
	if _, stdout, _ := run(t, request, ""); stdout != "1234\n5678\n/\n" {
		t.Errorf("%q", stdout)
	}
}

func TestManyAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for index := range 64 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 5 {
				result, output, err := testRuntime.Exec(ExecRequest{
					Command:          Command{Argv: []string{"sh", "-c", fmt.Sprintf("echo %d; exit %d", index, index)}},
					OutputLimitBytes: 100, TimeoutSeconds: 60,
				}, nil, func(int) {})
				if err != nil || result.ExitCode != index || !bytes.Equal(join(output), fmt.Appendf(nil, "%d\n", index)) {
					t.Errorf("%d: %+v %v", index, result, err)
				}
			}
		}()
	}
	group.Wait()
}

func TestBackgroundProcess(t *testing.T) {
	table := NewTable(testRuntime)
	start := func(name, text string) error {
		_, err := table.Start(StartRequest{
			Process: name, OutputLimitBytes: 100, OpenStdin: true, Command: Command{Shell: "sh", Script: text},
		})
		return err
	}
	if err := start("p", "while read line; do echo got $line; done; seq 1000; exit 5"); err != nil {
		t.Fatal(err)
	}
	if reason, _ := reasonOf(start("p", "true")); reason != fault.ProcessConflict {
		t.Error("the name was taken twice")
	}
	if err := table.Write("p", []byte("a\nb\n"), false); err != nil {
		t.Fatal(err)
	}
	var got []byte
	cursor := int64(0)
	for !bytes.Contains(got, []byte("got b\n")) {
		polled, data, err := table.Poll("p", cursor, 5, 5)
		if err != nil || len(data) > 5 || polled.DroppedBytes != 0 {
			t.Fatalf("%v %+v", err, polled)
		}
		got, cursor = append(got, data...), polled.NextCursor
	}
	if reason, _ := reasonOf(table.Remove("p")); reason != fault.ProcessConflict {
		t.Error("removed while it runs")
	}
	if err := table.Write("p", nil, true); err != nil {
		t.Fatal(err)
	}
	process, _ := table.find("p")
	<-process.drained
	polled, data, err := table.Poll("p", cursor, 1000, 5)
	if err != nil || polled.Running || polled.ExitCode != 5 || len(data) != 100 || !bytes.HasSuffix(data, []byte("1000\n")) {
		t.Errorf("%v %+v %q", err, polled, data)
	}
	if polled.DroppedBytes+int64(len(data))+cursor != polled.OutputBytes || polled.NextCursor != polled.OutputBytes {
		t.Errorf("counts: %+v", polled)
	}
	if reason, _ := reasonOf(table.Write("p", []byte("x"), false)); reason == "" {
		t.Error("wrote to an ended process")
	}
	if err := table.Remove("p"); err != nil {
		t.Error(err)
	}
	if _, _, err := table.Poll("p", 0, 1, 0); err == nil {
		t.Error("still there")
	}
}

func TestBackgroundKill(t *testing.T) {
	table := NewTable(testRuntime)
	for name, signal := range map[string]int{"term": 15, "kill": 9} {
		if _, err := table.Start(StartRequest{
			Process: name, OutputLimitBytes: 100, Command: Command{Shell: "sh", Script: "sleep " + nap(65) + " & sleep " + nap(65)},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := table.Kill(name, signal); err != nil {
			t.Fatal(err)
		}
		process, _ := table.find(name)
		<-process.drained
		if status := process.status(); status.Signal != signal || status.Running {
			t.Errorf("%s: %+v", name, status)
		}
	}
	if left := alive("sleep\x00" + nap(65)); left != 0 {
		t.Errorf("%d are left", left)
	}
	if len(table.List()) != 2 {
		t.Error("ended processes stay listed until removed")
	}
}

func TestInputThatIsNotReadIsBounded(t *testing.T) {
	table := NewTable(testRuntime)
	if _, err := table.Start(StartRequest{
		Process: "p", OutputLimitBytes: 100, OpenStdin: true, Command: Command{Argv: []string{"sleep", nap(66)}},
	}); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 30 {
		if err = table.Write("p", make([]byte, 100<<10), false); err != nil {
			break
		}
	}
	if reason, _ := reasonOf(err); reason != fault.ProcessInputFull {
		t.Error(err)
	}
	if _, err := table.Kill("p", 9); err != nil {
		t.Error(err)
	}
}
