package proc

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

type sink interface{ Write(data []byte) }

type discard struct{}

func (discard) Write([]byte) {}

var buffers = sync.Pool{New: func() any { buffer := make([]byte, 32<<10); return &buffer }}

// pipe moves what a command writes into a sink. Whoever inherited the pipe's other end may hold it for ever, so a pipe can
// be finished before its end: it then takes what is there, and is read into nowhere from then on, for a closed pipe
// would kill the holder at its next write.
type pipe struct {
	descriptor int

	mu      sync.Mutex // guards what follows, and that reads reach the sink in order
	to      sink
	watched bool
	closed  bool
}

// newPipe returns a new pipe and the end that a command writes to.
func newPipe(to sink) (*pipe, int, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	_ = syscall.SetNonblock(ends[0], true)
	return &pipe{descriptor: ends[0], to: to}, ends[1], nil
}

// watch starts to read the pipe whenever there is something in it.
func (p *pipe) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched || p.closed {
		return
	}
	p.watched = true
	file := os.NewFile(uintptr(p.descriptor), "output")
	go func() {
		defer file.Close()
		raw, err := file.SyscallConn()
		for ended := false; err == nil && !ended; {
			err = raw.Read(func(uintptr) bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				n, readErr := p.read(32 << 10)
				ended = n <= 0 && readErr != syscall.EAGAIN
				p.closed = ended
				return readErr != syscall.EAGAIN
			})
		}
	}()
}

// read takes one piece of at most most bytes. It answers 0 without an error at the end of the stream.
func (p *pipe) read(most int) (int, error) {
	pointer := buffers.Get().(*[]byte)
	defer buffers.Put(pointer)
	buffer := (*pointer)[:min(most, len(*pointer))]
	for {
		n, err := syscall.Read(p.descriptor, buffer)
		if err == syscall.EINTR {
			continue
		}
		if n > 0 {
			p.to.Write(buffer[:n])
		}
		return n, err
	}
}

// finish is called once the process that matters has ended: all that it wrote is in the pipe. No more than what is there
// now is taken, so that an endless writer in the background cannot hold the call.
func (p *pipe) finish() {
	if p.takeRest() {
		p.watch()
	}
}

// takeRest returns whether somebody else still holds the pipe.
func (p *pipe) takeRest() (open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	waiting, err := unix.IoctlGetInt(p.descriptor, unix.TIOCINQ)
	for err == nil && waiting > 0 {
		var n int
		if n, err = p.read(waiting); n <= 0 {
			break
		}
		waiting -= n
	}
	p.to = discard{}
	if p.watched {
		return true // and whoever watches sees the end
	}
	if n, err := p.read(32 << 10); n > 0 || err == syscall.EAGAIN {
		return true
	}
	p.closed = true
	syscall.Close(p.descriptor)
	return false
}

// abandon closes a pipe that no command got.
func (p *pipe) abandon() {
	p.closed = true
	syscall.Close(p.descriptor)
}
