// Package wire is the framing between the operator and the runner, the same both ways.
//
//	frame   = length u32, crc32 u32, body                           (big endian)
//	crc32   = IEEE, of this body, seeded with that of the frame before it in the same direction of
//	          the same connection (the first with 0)
//	body    = kind u8, then by kind:
//	  Hello    JSON                      first frame of each side
//	  Part     stream u32, last u8, data a piece of a request or of its response
//	  Ack      total u64                 bytes of Part frames taken off this connection so far
//	  Ping     opaque, answered by a Pong with the same bytes
//	  Goodbye  JSON {reason, message}    the sender is about to close, and why
//	message = header length u32, JSON header, payload bytes
//
// The exec stream of the Kubernetes API server silently loses bytes when its reader is slow, so every frame
// carries length and checksum, and at most Window unacknowledged bytes of Part frames are ever under way. Each checksum
// covers all frames before it: a whole frame that is lost, repeated or out of order does not fit, as little as a
// changed one.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Kind is the first byte of a frame's body.
type Kind byte

// The kinds of frames.
const (
	Hello Kind = iota + 1
	Part
	Ack
	Ping
	Pong
	Goodbye
)

const (
	// Version is the protocol's version, in both hellos.
	Version = 2
	// PrefixLength is the length and the checksum before each body.
	PrefixLength = 8
	// PartOverhead is what a Part frame adds to its data.
	PartOverhead = PrefixLength + 6
	// ChunkLength is the most data that one Part frame carries.
	ChunkLength = 32 << 10
	// MaxBody bounds a body; a longer one means a damaged stream.
	MaxBody = 64 << 10
	// Window is the most bytes of unacknowledged Part frames, each way.
	Window = 256 << 10
	// MaxMessage bounds a whole message.
	MaxMessage = 40 << 20
)

// ErrDamaged is the stream saying something that no sender would.
var ErrDamaged = errors.New("damaged frame")

// Encoder makes the frames of one direction of one connection, in the order in which they are sent.
type Encoder struct{ checksum uint32 }

// Append encodes the next frame, whose body is kind followed by the pieces.
func (e *Encoder) Append(to []byte, kind Kind, pieces ...[]byte) []byte {
	start := len(to)
	to = append(to, 0, 0, 0, 0, 0, 0, 0, 0, byte(kind))
	for _, piece := range pieces {
		to = append(to, piece...)
	}
	body := to[start+PrefixLength:]
	binary.BigEndian.PutUint32(to[start:], uint32(len(body)))
	e.checksum = crc32.Update(e.checksum, crc32.IEEETable, body)
	binary.BigEndian.PutUint32(to[start+4:], e.checksum)
	return to
}

// AppendPart encodes the next frame, a Part.
func (e *Encoder) AppendPart(to []byte, stream uint32, last bool, data ...[]byte) []byte {
	var head [5]byte
	binary.BigEndian.PutUint32(head[:], stream)
	if last {
		head[4] = 1
	}
	return e.Append(to, Part, append([][]byte{head[:]}, data...)...)
}

// Reader takes the frames of one direction of one connection off its stream.
type Reader struct {
	source   io.Reader
	buffer   []byte
	start    int
	end      int
	checksum uint32
}

// NewReader reads frames from source.
func NewReader(source io.Reader) *Reader {
	return &Reader{source: source, buffer: make([]byte, 2*(MaxBody+PrefixLength))}
}

// Next returns the next frame's kind and the rest of its body, which is valid until the next call.
func (r *Reader) Next() (Kind, []byte, error) {
	if err := r.fill(PrefixLength); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint32(r.buffer[r.start:]))
	if length < 1 || length > MaxBody {
		return 0, nil, fmt.Errorf("%w: length %d", ErrDamaged, length)
	}
	if err := r.fill(PrefixLength + length); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	want := binary.BigEndian.Uint32(r.buffer[r.start+4:])
	body := r.buffer[r.start+PrefixLength : r.start+PrefixLength+length]
	r.checksum = crc32.Update(r.checksum, crc32.IEEETable, body)
	if r.checksum != want {
		return 0, nil, fmt.Errorf("%w: %d bytes were changed, or are not the next frame", ErrDamaged, length)
	}
	r.start += PrefixLength + length
	return Kind(body[0]), body[1:], nil
}

func (r *Reader) fill(need int) error {
	if r.end-r.start >= need {
		return nil
	}
	if r.start+need > len(r.buffer) || r.start == r.end {
		r.end = copy(r.buffer, r.buffer[r.start:r.end])
		r.start = 0
	}
	for r.end-r.start < need {
		n, err := r.source.Read(r.buffer[r.end:])
		r.end += n
		if err != nil && r.end-r.start < need {
			if errors.Is(err, io.EOF) && r.end > r.start {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
