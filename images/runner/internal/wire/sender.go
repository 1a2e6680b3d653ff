package wire

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrClosed is a sender that was closed before the message was queued.
var ErrClosed = errors.New("connection closed")

const batchLength = 64 << 10

type outgoing struct {
	stream uint32
	pieces [][]byte
}

// Sender writes messages in turns of one chunk each, so that a long answer never delays a short one, and keeps at
// most Window bytes unacknowledged.
type Sender struct {
	mu      sync.Mutex
	wake    *sync.Cond
	control []byte
	queue   []*outgoing
	sent    uint64
	acked   uint64
	closed  bool
}

// NewSender makes a sender; Run writes what is queued.
func NewSender() *Sender {
	s := &Sender{}
	s.wake = sync.NewCond(&s.mu)
	return s
}

// Send queues a message on a stream.
func (s *Sender) Send(stream uint32, message Message) {
	s.mu.Lock()
	if !s.closed {
		s.queue = append(s.queue, &outgoing{stream: stream, pieces: message.pieces()})
	}
	s.mu.Unlock()
	s.wake.Signal()
}

// Control queues encoded frames that no window holds back.
func (s *Sender) Control(frames []byte) {
	s.mu.Lock()
	s.control = append(s.control, frames...)
	s.mu.Unlock()
	s.wake.Signal()
}

// Acknowledged takes the peer's running total.
func (s *Sender) Acknowledged(total uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if total > s.sent || total < s.acked {
		return fmt.Errorf("%w: %d bytes acknowledged of %d", ErrDamaged, total, s.sent)
	}
	s.acked = total
	s.wake.Signal()
	return nil
}

// Close makes Run return.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.queue = nil
	s.mu.Unlock()
	s.wake.Signal()
}

// Run writes to out until Close or a failed write.
func (s *Sender) Run(out io.Writer) error {
	buffer := make([]byte, 0, batchLength+ChunkLength+PartOverhead)
	for {
		s.mu.Lock()
		for len(s.control) == 0 && !s.closed && !s.hasRoom() {
			s.wake.Wait()
		}
		if s.closed && len(s.control) == 0 {
			s.mu.Unlock()
			return nil
		}
		buffer = append(buffer[:0], s.control...)
		s.control = s.control[:0]
		for s.hasRoom() && len(buffer) < batchLength {
			buffer = s.appendNext(buffer)
		}
		s.mu.Unlock()
		if _, err := out.Write(buffer); err != nil {
			return err
		}
	}
}

func (s *Sender) hasRoom() bool {
	return len(s.queue) > 0 && s.sent-s.acked+ChunkLength+PartOverhead <= Window
}

// appendNext encodes one chunk of the first message and puts that message at the end of the queue.
func (s *Sender) appendNext(buffer []byte) []byte {
	first := s.queue[0]
	var chunk [][]byte
	room := ChunkLength
	for room > 0 && len(first.pieces) > 0 {
		piece := first.pieces[0]
		if len(piece) <= room {
			first.pieces = first.pieces[1:]
		} else {
			piece, first.pieces[0] = piece[:room], piece[room:]
		}
		room -= len(piece)
		chunk = append(chunk, piece)
	}
	last := len(first.pieces) == 0
	before := len(buffer)
	buffer = AppendPart(buffer, first.stream, last, chunk...)
	s.sent += uint64(len(buffer) - before)
	s.queue[0] = nil
	s.queue = s.queue[1:]
	if !last {
		s.queue = append(s.queue, first)
	}
	return buffer
}
