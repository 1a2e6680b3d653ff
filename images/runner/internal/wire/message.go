package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Message is a JSON header with raw bytes behind it.
type Message struct {
	Header  []byte
	Payload [][]byte
}

// NewMessage encodes header as JSON.
func NewMessage(header any, payload ...[]byte) (Message, error) {
	encoded, err := json.Marshal(header)
	return Message{Header: encoded, Payload: payload}, err
}

// Size is the number of bytes of header and payload.
func (m Message) Size() int64 {
	size := int64(len(m.Header))
	for _, piece := range m.Payload {
		size += int64(len(piece))
	}
	return size
}

func (m Message) pieces() [][]byte {
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(m.Header)), uint32(len(m.Header)))
	pieces := [][]byte{append(head, m.Header...)}
	for _, piece := range m.Payload {
		if len(piece) > 0 {
			pieces = append(pieces, piece)
		}
	}
	return pieces
}

// Split takes an assembled message apart.
func Split(message []byte) (header, payload []byte, err error) {
	if len(message) < 4 {
		return nil, nil, fmt.Errorf("%w: message of %d bytes", ErrDamaged, len(message))
	}
	length := int(binary.BigEndian.Uint32(message))
	if length > len(message)-4 {
		return nil, nil, fmt.Errorf("%w: header of %d bytes in a message of %d", ErrDamaged, length, len(message))
	}
	return message[4 : 4+length], message[4+length:], nil
}

// Assembler joins the Part frames of each stream.
type Assembler struct {
	streams map[uint32][]byte
	held    int
}

// NewAssembler starts with no streams.
func NewAssembler() *Assembler { return &Assembler{streams: map[uint32][]byte{}} }

// Add takes the body of a Part frame and returns the whole message once its last part is in.
func (a *Assembler) Add(body []byte) (stream uint32, message []byte, complete bool, err error) {
	if len(body) < 5 || body[4] > 1 {
		return 0, nil, false, fmt.Errorf("%w: part of %d bytes", ErrDamaged, len(body))
	}
	stream = binary.BigEndian.Uint32(body)
	data := body[5:]
	held := a.streams[stream]
	if len(held)+len(data) > MaxMessage || a.held+len(data) > 2*MaxMessage {
		return 0, nil, false, fmt.Errorf("%w: message over %d bytes", ErrDamaged, MaxMessage)
	}
	joined := append(held, data...)
	if body[4] == 1 {
		a.held -= len(held)
		delete(a.streams, stream)
		return stream, joined, true, nil
	}
	a.streams[stream] = joined
	a.held += len(data)
	return stream, nil, false, nil
}
