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
	standard, closeEnds, readers, feed, err := openStandard(request.MergeOutput, len(stdin) > 0)
	if err != nil {
		return nil, nil, fault.NotStarted("pipe", err)
	}
	oomBefore := rt.oom.read()
	begin := time.Now()
	run, err := rt.start(request.Command, standard)
	closeEnds()
	if err != nil {
		for _, reader := range readers {
			reader.file.Close()
		}
		if feed != nil {
			feed.Close()
		}
		return nil, nil, err
	}
	onStart(run.child.Pid)
	if feed != nil {
		go func() {
			_, _ = feed.Write(stdin)
			feed.Close()
		}()
	}
	outputs := make([]*HeadTail, 2)
	for index := range outputs {
		outputs[index] = NewHeadTail(request.OutputLimitBytes)
	}
	for index, reader := range readers {
		go reader.run(outputs[index])
	}
	report := NewHeadTail(2 * maxStateBytes)
	if run.stateRead != nil {
		go run.stateRead.run(report)
	}
	result := &ExecResult{}
	result.TimedOut, result.Stuck = await(run.child, request.TimeoutSeconds)
	result.DurationSeconds = time.Since(begin).Seconds()
	if feed != nil {
		// Nobody may be left to read it.
		_ = feed.SetWriteDeadline(time.Unix(1, 0))
	}
	for _, reader := range readers {
		reader.finish()
	}
	if result.Stuck {
		result.Signal, result.ExitCode = int(syscall.SIGKILL), 128+int(syscall.SIGKILL)
	} else {
		result.take(run.child.Status())
	}
	result.OomKilled = rt.oom.rose(oomBefore)
	if run.stateRead != nil {
		run.stateRead.finish()
		result.Cwd = rt.carry(request.Command, report, run.nonce)
	}
	result.Stdout, result.Stderr = outputs[0].Describe(), outputs[1].Describe()
	return result, append(outputs[0].Pieces(), outputs[1].Pieces()...), nil
}

// openStandard makes the descriptors of a command. closeEnds closes the command's side of them here.
func openStandard(merge, withInput bool) (standard [3]int, closeEnds func(), readers []*reader, feed *os.File, err error) {
	var ends []int
	closeEnds = func() {
		for _, end := range ends {
			syscall.Close(end)
		}
	}
	abandon := func() {
		closeEnds()
		for _, reader := range readers {
			reader.file.Close()
		}
	}
	if withInput {
		var input [2]int
		if err = syscall.Pipe2(input[:], syscall.O_CLOEXEC); err != nil {
			return
		}
		_ = syscall.SetNonblock(input[1], true)
		feed = os.NewFile(uintptr(input[1]), "stdin")
		standard[0] = input[0]
	} else if standard[0], err = syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		return
	}
	ends = append(ends, standard[0])
	for index := 1; index <= 2; index++ {
		if index == 2 && merge {
			standard[2] = standard[1]
			break
		}
		var output *reader
		if output, standard[index], err = newPipe(); err != nil {
			abandon()
			if feed != nil {
				feed.Close()
			}
			return
		}
		readers = append(readers, output)
		ends = append(ends, standard[index])
	}
	return
}

// seconds keeps a number that is too large for a duration from becoming a negative one.
func seconds(number float64) time.Duration {
	return time.Duration(min(number, 1e9) * float64(time.Second))
}

func await(child *reap.Child, timeoutSeconds float64) (timedOut, stuck bool) {
	if timeoutSeconds <= 0 {
		<-child.Exited
		return false, false
	}
	timer := time.NewTimer(seconds(timeoutSeconds))
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
