package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type sink interface{ Write(data []byte) }

type discard struct{}

func (discard) Write([]byte) {}

var buffers = sync.Pool{New: func() any { buffer := make([]byte, 32<<10); return &buffer }}

// reader moves what comes out of a pipe into a sink. Whoever inherited the pipe's other end may hold it for ever, so a
// reader can be finished before the end of the stream: it then takes what is in the pipe, and keeps reading into nowhere,
// for a closed pipe would kill the holder at its next write.
type reader struct {
	descriptor int
	file       *os.File
	done       chan struct{} // closed when the sink gets no more
}

// newPipe returns a reader of a new pipe and the end that a child writes to.
func newPipe() (*reader, int, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	if err := syscall.SetNonblock(ends[0], true); err != nil {
		_, _ = syscall.Close(ends[0]), syscall.Close(ends[1])
		return nil, -1, err
	}
	return &reader{
		descriptor: ends[0],
		file:       os.NewFile(uintptr(ends[0]), "output"),
		done:       make(chan struct{}),
	}, ends[1], nil
}

func (r *reader) run(to sink) {
	pointer := buffers.Get().(*[]byte)
	defer buffers.Put(pointer)
	defer r.file.Close()
	buffer := *pointer
	if r.copy(to, buffer) {
		close(r.done)
		return
	}
	r.takeRest(to, buffer)
	close(r.done)
	if r.file.SetReadDeadline(time.Time{}) == nil {
		r.copy(discard{}, buffer)
	}
}

// copy returns true at the end of the stream and false when finish was called.
func (r *reader) copy(to sink, buffer []byte) bool {
	for {
		n, err := r.file.Read(buffer)
		to.Write(buffer[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil {
			return true
		}
	}
}

// takeRest takes what is in the pipe now and no more, so that an endless writer in the background cannot hold the call.
func (r *reader) takeRest(to sink, buffer []byte) {
	waiting, err := unix.IoctlGetInt(r.descriptor, unix.TIOCINQ)
	for err == nil && waiting > 0 {
		var n int
		n, err = syscall.Read(r.descriptor, buffer[:min(len(buffer), waiting)])
		if n <= 0 {
			break
		}
		to.Write(buffer[:n])
		waiting -= n
	}
}

// finish is called once the process that matters has ended: everything it wrote is in the pipe.
func (r *reader) finish() {
	select {
	case <-r.done:
	default:
		_ = r.file.SetReadDeadline(time.Unix(1, 0))
		<-r.done
	}
}
