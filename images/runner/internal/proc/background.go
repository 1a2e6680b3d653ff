package proc

import (
	"os"
	"sort"
	"sync"
	"syscall"
	"time"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/reap"
)

const (
	// MaxRing bounds what is kept of one background process's output.
	MaxRing = 16 << 20
	// maxBackground bounds how many background processes are known at a time, ended ones too.
	maxBackground = 256
	// maxPendingInput bounds what waits for a process that does not read its stdin.
	maxPendingInput = 1 << 20
)

// StartRequest starts a command in the background under a name of the caller's.
type StartRequest struct {
	Command
	Process          string `json:"process"`
	OutputLimitBytes int    `json:"outputLimitBytes"`
	OpenStdin        bool   `json:"openStdin,omitempty"`
}

// Status describes a background process.
type Status struct {
	Process         string  `json:"process"`
	Pid             int     `json:"pid"`
	Running         bool    `json:"running"`
	ExitCode        int     `json:"exitCode"`
	Signal          int     `json:"signal,omitempty"`
	DurationSeconds float64 `json:"durationSeconds"`
	OutputBytes     int64   `json:"outputBytes"`
	OomKilled       bool    `json:"oomKilled,omitempty"`
	Command         string  `json:"command"`
}

type background struct {
	name      string
	command   string
	child     *reap.Child
	output    *Ring
	begin     time.Time
	oomBefore int64
	drained   chan struct{} // closed once the process has ended and its output is in the ring

	mu      sync.Mutex // guards what follows
	end     time.Time
	oom     bool
	input   *os.File
	pending int
	queue   chan []byte
}

// Table holds the background processes.
type Table struct {
	runtime *Runtime
	mu      sync.Mutex
	entries map[string]*background
}

// NewTable starts empty.
func NewTable(runtime *Runtime) *Table {
	return &Table{runtime: runtime, entries: map[string]*background{}}
}

// Start runs a command and leaves it running.
func (t *Table) Start(request StartRequest) (Status, error) {
	if request.OutputLimitBytes < 1 || request.OutputLimitBytes > MaxRing {
		return Status{}, fault.New(fault.InvalidRequest, "outputLimitBytes must be in 1..%d", MaxRing)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[request.Process] != nil {
		return Status{}, fault.New(fault.ProcessConflict, "process %q exists; remove it or use another name", request.Process)
	}
	if len(t.entries) >= maxBackground {
		return Status{}, fault.New(fault.ProcessLimit, "%d background processes are known; remove ended ones", len(t.entries))
	}
	ring := NewRing(request.OutputLimitBytes)
	ends, err := openEnds([]sink{ring}, request.OpenStdin)
	if err != nil {
		return Status{}, fault.NotStarted("pipe", err)
	}
	process := &background{
		name:      request.Process,
		command:   request.Script,
		output:    ring,
		begin:     time.Now(),
		oomBefore: t.runtime.oom.read(),
		drained:   make(chan struct{}),
		input:     ends.input,
	}
	if request.Shell == "" && len(request.Argv) > 0 {
		process.command = request.Argv[0]
	}
	run, err := t.runtime.start(request.withoutReport(), ends.standard)
	ends.closeTheirs()
	if err != nil {
		ends.abandon()
		return Status{}, err
	}
	process.child = run.child
	if process.input != nil {
		process.queue = make(chan []byte, 1024)
		go process.writeInput()
	}
	ends.pipes[0].watch()
	go process.watch(t.runtime, ends.pipes[0])
	t.entries[request.Process] = process
	return process.status(), nil
}

// withoutReport makes the process start in the carried state without changing it at its end.
func (r StartRequest) withoutReport() Command {
	command := r.Command
	command.keepState = true
	return command
}

func (b *background) watch(runtime *Runtime, output *pipe) {
	<-b.child.Exited
	output.finish()
	b.mu.Lock()
	b.end = time.Now()
	b.oom = b.child.Status().Wait.Signaled() && runtime.oom.read() > b.oomBefore
	if b.input != nil {
		b.input.Close()
	}
	b.mu.Unlock()
	close(b.drained)
}

func (b *background) status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := Status{
		Process: b.name, Command: b.command, Pid: b.child.Pid, Running: b.end.IsZero(), OutputBytes: b.output.Total(),
	}
	if status.Running {
		status.DurationSeconds = time.Since(b.begin).Seconds()
		return status
	}
	status.DurationSeconds = b.end.Sub(b.begin).Seconds()
	status.OomKilled = b.oom
	var ended ExecResult
	ended.take(b.child.Status())
	status.ExitCode, status.Signal = ended.ExitCode, ended.Signal
	return status
}

func (t *Table) find(name string) (*background, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if process := t.entries[name]; process != nil {
		return process, nil
	}
	return nil, fault.New(fault.ProcessNotFound, "no background process %q", name)
}

// List gives every known process, by name.
func (t *Table) List() []Status {
	t.mu.Lock()
	found := make([]*background, 0, len(t.entries))
	for _, process := range t.entries {
		found = append(found, process)
	}
	t.mu.Unlock()
	sort.Slice(found, func(i, j int) bool { return found[i].name < found[j].name })
	statuses := make([]Status, len(found))
	for index, process := range found {
		statuses[index] = process.status()
	}
	return statuses
}

// Polled is what Poll saw.
type Polled struct {
	Status
	NextCursor   int64 `json:"nextCursor"`
	DroppedBytes int64 `json:"droppedBytes"`
}

// Poll returns output from cursor on. With a wait it returns once there is some, or the process has ended, or the time
// is over.
func (t *Table) Poll(name string, cursor int64, most int, waitSeconds float64) (Polled, []byte, error) {
	process, err := t.find(name)
	if err != nil {
		return Polled{}, nil, err
	}
	deadline := time.NewTimer(seconds(waitSeconds))
	defer deadline.Stop()
	for over := waitSeconds <= 0; ; {
		changed := process.output.Changed()
		// The status first: a process seen as ended has all its output in the ring.
		status := process.status()
		data, next, dropped := process.output.Since(cursor, most)
		if len(data) > 0 || !status.Running || over {
			return Polled{Status: status, NextCursor: next, DroppedBytes: dropped}, data, nil
		}
		select {
		case <-changed:
		case <-process.drained:
		case <-deadline.C:
			over = true
		}
	}
}

// Write queues bytes for a process's stdin, and closes it after them when asked.
func (t *Table) Write(name string, data []byte, closeAfter bool) error {
	process, err := t.find(name)
	if err != nil {
		return err
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	if process.queue == nil {
		return fault.New(fault.InvalidRequest, "process %q has no open stdin; start it with openStdin", name)
	}
	if !process.end.IsZero() {
		return fault.New(fault.ProcessNotFound, "process %q has ended", name)
	}
	if process.pending+len(data) > maxPendingInput || len(process.queue) >= cap(process.queue)-1 {
		return fault.New(fault.ProcessInputFull, "process %q does not read its stdin: %d bytes wait", name, process.pending)
	}
	if len(data) > 0 {
		process.pending += len(data)
		process.queue <- data
	}
	if closeAfter {
		close(process.queue)
		process.queue = nil
	}
	return nil
}

func (b *background) writeInput() {
	b.mu.Lock()
	queue := b.queue
	b.mu.Unlock()
	for {
		var data []byte
		open := true
		select {
		case data, open = <-queue:
		case <-b.drained:
			return
		}
		if !open {
			b.input.Close()
			return
		}
		_, _ = b.input.Write(data)
		b.mu.Lock()
		b.pending -= len(data)
		b.mu.Unlock()
	}
}

// Kill signals a process's group, SIGKILL its whole session and descendants.
func (t *Table) Kill(name string, signal int) (Status, error) {
	process, err := t.find(name)
	if err != nil {
		return Status{}, err
	}
	if signal == int(syscall.SIGKILL) {
		// Its group may outlive it, so an ended process is killed too.
		KillTree(process.child.Pid)
		select {
		case <-process.drained:
		case <-time.After(stuckAfter):
		}
	} else if err := syscall.Kill(-process.child.Pid, syscall.Signal(signal)); err != nil && err != syscall.ESRCH {
		return Status{}, fault.New(fault.InvalidRequest, "signal %d: %v", signal, err)
	}
	return process.status(), nil
}

// Remove forgets an ended process.
func (t *Table) Remove(name string) error {
	process, err := t.find(name)
	if err != nil {
		return err
	}
	if process.status().Running {
		return fault.New(fault.ProcessConflict, "process %q still runs; kill it first", name)
	}
	t.mu.Lock()
	delete(t.entries, name)
	t.mu.Unlock()
	return nil
}
