package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

const batchLength = 64 << 10

type outgoing struct {
	stream uint32
	pieces [][]byte
}

// Sender writes messages in turns of one chunk each, so that a long answer never delays a short one, and keeps at
// most Window bytes unacknowledged. Whoever has something to send while nobody writes writes it himself: an answer then
// waits for no other thread.
type Sender struct {
	out     io.Writer
	failed  func() // called once when a write fails
	flushed chan struct{}

	mu      sync.Mutex
	encoder Encoder
	control []byte
	queue   []*outgoing
	sent    uint64
	acked   uint64
	writing bool
	closed  bool
	buffer  []byte // belongs to who writes
}

// NewSender sends to out.
func NewSender(out io.Writer, failed func()) *Sender {
	return &Sender{out: out, failed: failed, flushed: make(chan struct{})}
}

// Send queues a message on a stream, and may write it.
func (s *Sender) Send(stream uint32, message Message) {
	s.mu.Lock()
	if !s.closed {
		s.queue = append(s.queue, &outgoing{stream: stream, pieces: message.pieces()})
	}
	write := s.begin()
	s.mu.Unlock()
	if write {
		s.write()
	}
}

// Control queues a frame that no window holds back. It never waits.
func (s *Sender) Control(kind Kind, body []byte) {
	s.mu.Lock()
	if !s.closed {
		// It can be encoded now: it is written before any part that is encoded later.
		s.control = s.encoder.Append(s.control, kind, body)
	}
	write := s.begin()
	s.mu.Unlock()
	if write {
		go s.write()
	}
}

// Acknowledge tells the peer how many bytes of its Part frames were taken so far. It never waits.
func (s *Sender) Acknowledge(total uint64) {
	s.Control(Ack, binary.BigEndian.AppendUint64(nil, total))
}

// Acknowledged takes the peer's running total. It never waits.
func (s *Sender) Acknowledged(total uint64) error {
	s.mu.Lock()
	if total > s.sent || total < s.acked {
		s.mu.Unlock()
		return fmt.Errorf("%w: %d bytes acknowledged of %d", ErrDamaged, total, s.sent)
	}
	s.acked = total
	write := s.begin()
	s.mu.Unlock()
	if write {
		go s.write()
	}
	return nil
}

// Close drops what is queued but for control frames; Flushed tells when those are written.
func (s *Sender) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.queue = nil
	write := first && !s.writing
	s.writing = s.writing || write
	s.mu.Unlock()
	if write {
		go s.write()
	}
}

// Flushed is closed when nothing will be written any more.
func (s *Sender) Flushed() <-chan struct{} { return s.flushed }

// begin says whether the caller has to write.
func (s *Sender) begin() bool {
	if s.writing || s.closed || (len(s.control) == 0 && !s.hasRoom()) {
		return false
	}
	s.writing = true
	return true
}

func (s *Sender) write() {
	for {
		batch := s.nextBatch()
		if len(batch) == 0 {
			return
		}
		if _, err := s.out.Write(batch); err != nil {
			s.mu.Lock()
			s.closed, s.queue, s.control = true, nil, nil
			s.mu.Unlock()
			s.failed()
		}
	}
}

func (s *Sender) nextBatch() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer = append(s.buffer[:0], s.control...)
	s.control = s.control[:0]
	for s.hasRoom() && len(s.buffer) < batchLength {
		s.buffer = s.appendNext(s.buffer)
	}
	if len(s.buffer) == 0 {
		s.writing = false
		if s.closed {
			s.writing = true // for ever: nobody else begins
			close(s.flushed)
		}
	}
	return s.buffer
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
	buffer = s.encoder.AppendPart(buffer, first.stream, last, chunk...)
	s.sent += uint64(len(buffer) - before)
	s.queue[0] = nil
	s.queue = s.queue[1:]
	if !last {
		s.queue = append(s.queue, first)
	}
	return buffer
}
