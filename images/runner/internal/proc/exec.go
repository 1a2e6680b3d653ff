package proc

import (
	"os"
	"syscall"
	"time"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/reap"
)

// ExecRequest runs a command to its end.
type ExecRequest struct {
	Command
	TimeoutSeconds   float64 `json:"timeoutSeconds,omitempty"`
	OutputLimitBytes int     `json:"outputLimitBytes"`
	MergeOutput      bool    `json:"mergeOutput,omitempty"`
}

// ExecResult says how a command ended; the kept bytes of stdout and stderr follow as payload.
type ExecResult struct {
	ExitCode        int     `json:"exitCode"` // 128 + signal where a signal ended it, as shells say it
	Signal          int     `json:"signal,omitempty"`
	TimedOut        bool    `json:"timedOut,omitempty"`
	OomKilled       bool    `json:"oomKilled,omitempty"`
	Stuck           bool    `json:"stuck,omitempty"` // killed, but the kernel has not let go of it yet
	DurationSeconds float64 `json:"durationSeconds"`
	CPUSeconds      float64 `json:"cpuSeconds"`
	MaxMemoryBytes  int64   `json:"maxMemoryBytes"`
	Cwd             string  `json:"cwd,omitempty"` // of the shell at its end, where its state is carried
	Stdout          Output  `json:"stdout"`
	Stderr          Output  `json:"stderr"`
}

// MaxOutputLimit bounds what one call may keep of one stream.
const MaxOutputLimit = 16 << 20

// stuckAfter is how long a killed process may take to go, before its call is answered anyway.
const stuckAfter = 10 * time.Second

// Exec runs a command and returns once its main process has ended, whoever still holds its pipes. onStart gets its
// process id.
func (rt *Runtime) Exec(request ExecRequest, stdin []byte, onStart func(pid int)) (*ExecResult, [][]byte, error) {
	if request.OutputLimitBytes < 0 || request.OutputLimitBytes > MaxOutputLimit {
		return nil, nil, fault.New(fault.InvalidRequest, "outputLimitBytes must be in 0..%d", MaxOutputLimit)
	}
	stdout, stderr := NewHeadTail(request.OutputLimitBytes), NewHeadTail(request.OutputLimitBytes)
	outputs := []sink{stdout, stderr}
	if request.MergeOutput {
		outputs = outputs[:1]
	}
	ends, err := openEnds(outputs, len(stdin) > 0)
	if err != nil {
		return nil, nil, fault.NotStarted("pipe", err)
	}
	oomBefore := rt.oom.read()
	begin := time.Now()
	run, err := rt.start(request.Command, ends.standard)
	ends.closeTheirs()
	if err != nil {
		ends.abandon()
		return nil, nil, err
	}
	onStart(run.child.Pid)
	pipes := ends.pipes
	if run.reportEnd != nil {
		pipes = append(pipes, run.reportEnd)
	}
	if ends.input != nil {
		go feed(ends.input, stdin)
	}
	result := &ExecResult{}
	result.TimedOut, result.Stuck = await(run.child, request.TimeoutSeconds, pipes)
	result.DurationSeconds = time.Since(begin).Seconds()
	if ends.input != nil {
		// Nobody may be left to read it.
		_ = ends.input.SetWriteDeadline(time.Unix(1, 0))
	}
	for _, each := range pipes {
		each.finish()
	}
	if result.Stuck {
		result.Signal, result.ExitCode = int(syscall.SIGKILL), 128+int(syscall.SIGKILL)
	} else {
		result.take(run.child.Status())
	}
	result.OomKilled = rt.oom.rose(oomBefore)
	if run.report != nil {
		result.Cwd = rt.carry(request.Command, run.report, run.nonce)
	}
	result.Stdout, result.Stderr = stdout.Describe(), stderr.Describe()
	return result, append(stdout.Pieces(), stderr.Pieces()...), nil
}

func feed(input *os.File, data []byte) {
	_, _ = input.Write(data)
	input.Close()
}

// seconds keeps a number that is too large for a duration from becoming a negative one.
func seconds(number float64) time.Duration {
	return time.Duration(min(number, 1e9) * float64(time.Second))
}

// unwatched is how long a command runs before its pipes are watched. Until then what it writes waits in them: a short
// command is done before that, and its output is taken in one go, without waking any thread for it.
const unwatched = 3 * time.Millisecond

func await(child *reap.Child, timeoutSeconds float64, pipes []*pipe) (timedOut, stuck bool) {
	quick := time.NewTimer(unwatched)
	defer quick.Stop()
	select {
	case <-child.Exited:
		return false, false
	case <-quick.C:
	}
	for _, each := range pipes {
		each.watch()
	}
	if timeoutSeconds <= 0 {
		<-child.Exited
		return false, false
	}
	timer := time.NewTimer(max(seconds(timeoutSeconds)-unwatched, 0))
	defer timer.Stop()
	select {
	case <-child.Exited:
		return false, false
	case <-timer.C:
	}
	KillTree(child.Pid)
	select {
	case <-child.Exited:
		return true, false
	case <-time.After(stuckAfter):
		return true, true
	}
}

func (r *ExecResult) take(status reap.Status) {
	if status.Wait.Signaled() {
		r.Signal = int(status.Wait.Signal())
		r.ExitCode = 128 + r.Signal
	} else {
		r.ExitCode = status.Wait.ExitStatus()
	}
	r.CPUSeconds = time.Duration(status.Usage.Utime.Nano() + status.Usage.Stime.Nano()).Seconds()
	r.MaxMemoryBytes = status.Usage.Maxrss << 10
}

// carry keeps the state that the shell reported, and returns its directory.
func (rt *Runtime) carry(command Command, report *HeadTail, nonce string) string {
	if report.Describe().OmittedBytes > 0 {
		return ""
	}
	var joined []byte
	for _, piece := range report.Pieces() {
		joined = append(joined, piece...)
	}
	after, found := parseState(joined, nonce)
	if !found {
		return rt.states.get(command.ShellState).cwd
	}
	before := rt.states.get(command.ShellState).env
	if before == nil {
		before = rt.ImageEnv
	}
	after.env = withoutCallEnv(after.env, before, command.Env)
	rt.states.put(command.ShellState, after)
	return after.cwd
}
