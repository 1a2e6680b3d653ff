package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// Whatever comes over the stream, it is either read as exactly the frames that it is, or damage is seen.
func FuzzFrame(f *testing.F) {
	var encoder Encoder
	message := append([]byte{0, 0, 0, 2}, "{}payload"...)
	hello := encoder.Append(nil, Hello, []byte(`{"version":2,"client":"me"}`))
	part := encoder.AppendPart(nil, 7, false, message[:5])
	ack := encoder.Append(nil, Ack, []byte{0, 0, 0, 0, 0, 0, 1, 2})
	last := encoder.AppendPart(nil, 7, true, message[5:])
	whole := bytes.Join([][]byte{hello, part, ack, last}, nil)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(whole[3:])
	f.Add(append(bytes.Clone(whole[:20]), whole[30:]...))
	f.Add(bytes.Join([][]byte{hello, ack, last}, nil))
	f.Add(bytes.Join([][]byte{hello, part, part, ack}, nil))
	f.Add(bytes.Join([][]byte{hello, ack, part, last}, nil))
	f.Add(new(Encoder).AppendPart(nil, 1, true, make([]byte, ChunkLength)))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		frames, read := readAll(t, bytes.NewReader(stream))
		if !bytes.Equal(frames, stream[:len(frames)]) {
			t.Errorf("%x was read as %x", stream, frames)
		}
		cut, readCut := readAll(t, iotest.OneByteReader(bytes.NewReader(stream)))
		if !bytes.Equal(frames, cut) || read.Error() != readCut.Error() {
			t.Errorf("cut in bytes it is another stream: %v %v", read, readCut)
		}
	})
}

// readAll gives the frames that it has read, encoded again, and what ended the stream.
func readAll(t *testing.T, source io.Reader) (frames []byte, end error) {
	reader, assembler, encoder := NewReader(source), NewAssembler(), new(Encoder)
	for {
		kind, body, err := reader.Next()
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("not typed: %v", err)
			}
			return frames, err
		}
		frames = encoder.Append(frames, kind, body)
		if kind != Part {
			continue
		}
		_, message, complete, err := assembler.Add(body)
		if err != nil || !complete {
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("not typed: %v", err)
			}
			continue
		}
		header, payload, err := Split(message)
		if err == nil && len(header)+len(payload)+4 != len(message) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%x came apart as %x and %x: %v", message, header, payload, err)
		}
	}
}
