// Package reap starts children and reaps every process that ends, as PID 1 must.
package reap

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Status is how a child ended.
type Status struct {
	Wait  syscall.WaitStatus
	Usage syscall.Rusage
}

// Child is a process that this runner started.
type Child struct {
	Pid    int
	Exited chan struct{}
	status Status
}

// Status is valid once Exited is closed.
func (c *Child) Status() Status { return c.status }

// Reaper is the only caller of wait4 in the process.
type Reaper struct {
	mu         sync.Mutex
	children   map[int]*Child
	generation atomic.Int64
	wake       chan os.Signal
}

// New starts reaping.
func New() *Reaper {
	r := &Reaper{children: map[int]*Child{}, wake: make(chan os.Signal, 1)}
	signal.Notify(r.wake, syscall.SIGCHLD)
	go r.loop()
	return r
}

// Start forks and executes. The lock is held until the child is registered, so that even a child that ends at once is
// known when it is reaped; before and after run under it too.
//
// What was asked for before everything was killed is not started any more: it may have been on its way here since.
func (r *Reaper) Start(generation int, path string, argv []string, attributes *syscall.ProcAttr, before, after func()) (*Child, error) {
	r.mu.Lock()
	if int64(generation) != r.generation.Load() {
		r.mu.Unlock()
		return nil, syscall.ECANCELED
	}
	before()
	pid, err := syscall.ForkExec(path, argv, attributes)
	after()
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	child := &Child{Pid: pid, Exited: make(chan struct{})}
	r.children[pid] = child
	r.mu.Unlock()
	select {
	case r.wake <- syscall.SIGCHLD:
	default:
	}
	return child, nil
}

// Generation is given to what is started from now on.
func (r *Reaper) Generation() int {
	return int(r.generation.Load())
}

// Hold runs action while no child can be started, and begins a new generation.
func (r *Reaper) Hold(action func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation.Add(1)
	action()
}

func (r *Reaper) loop() {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		// Blocking in wait4 answers sooner than SIGCHLD does; the signal matters only while there is no child at all.
		pid, err := syscall.Wait4(-1, &status, unix.WALL, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			<-r.wake
		default:
			r.dispatch(pid, Status{Wait: status, Usage: usage})
			// Whoever waited goes on at once on this very thread, and need not wait until another is woken.
			runtime.Gosched()
		}
	}
}

func (r *Reaper) dispatch(pid int, status Status) {
	r.mu.Lock()
	child := r.children[pid]
	delete(r.children, pid)
	r.mu.Unlock()
	if child != nil {
		child.status = status
		close(child.Exited)
	}
}
