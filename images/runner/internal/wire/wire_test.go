package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
)

func random(length int) []byte {
	data := make([]byte, length)
	for index := range data {
		data[index] = byte(rand.Uint32())
	}
	return data
}

func TestFramesSurviveAnyCut(t *testing.T) {
	bodies := [][]byte{{}, {1}, random(1000), random(MaxBody - 1), random(ChunkLength), {2, 3}}
	var stream []byte
	var encoder Encoder
	for _, body := range bodies {
		stream = encoder.Append(stream, Part, body)
	}
	for name, source := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "bytes": iotest.OneByteReader(bytes.NewReader(stream)),
		"halves": iotest.HalfReader(bytes.NewReader(stream)), "with EOF": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		reader := NewReader(source)
		for index, want := range bodies {
			kind, body, err := reader.Next()
			if err != nil || kind != Part || !bytes.Equal(body, want) {
				t.Fatalf("%s: frame %d: kind %d, %d bytes, %v", name, index, kind, len(body), err)
			}
		}
		if _, _, err := reader.Next(); err != io.EOF {
			t.Fatalf("%s: end: %v", name, err)
		}
	}
}

func TestEveryDamageIsSeen(t *testing.T) {
	var encoder Encoder
	frame := encoder.AppendPart(nil, 7, true, []byte("some data"))
	whole := encoder.Append(bytes.Clone(frame), Ping, []byte("next"))
	for at := range frame {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x40
		if _, _, err := NewReader(bytes.NewReader(damaged)).Next(); !errors.Is(err, ErrDamaged) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("byte %d changed: %v", at, err)
		}
		lost := append(bytes.Clone(whole[:at]), whole[at+1:]...)
		if _, _, err := NewReader(bytes.NewReader(lost)).Next(); !errors.Is(err, ErrDamaged) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("byte %d lost: %v", at, err)
		}
	}
}

func TestAFrameThatIsLostRepeatedOrOutOfOrderIsSeen(t *testing.T) {
	var encoder Encoder
	hello, one := encoder.Append(nil, Hello, []byte("{}")), encoder.AppendPart(nil, 1, false, []byte("same"))
	two, ping := encoder.AppendPart(nil, 1, false, []byte("same")), encoder.Append(nil, Ping, nil)
	for name, stream := range map[string][][]byte{
		"0 lost": {one, two, ping}, "1 lost": {hello, two, ping}, "2 lost": {hello, one, ping}, "1, 2 lost": {hello, ping},
		"0 repeated": {hello, hello, one}, "1 repeated": {hello, one, one, two}, "2 repeated": {hello, one, two, two},
		"0, 1 swapped": {one, hello, two}, "1, 2 swapped": {hello, two, one, ping}, "2, 3 swapped": {hello, one, ping, two},
	} {
		reader := NewReader(bytes.NewReader(bytes.Join(stream, nil)))
		var err error
		var frames int
		for ; err == nil; frames++ {
			_, _, err = reader.Next()
		}
		good := 0
		for good < len(stream) && bytes.Equal(stream[good], [][]byte{hello, one, two, ping}[good]) {
			good++
		}
		if !errors.Is(err, ErrDamaged) || frames-1 != good {
			t.Errorf("%s: %d frames, not %d, then %v", name, frames-1, good, err)
		}
	}
}

func TestAssemblerRefusesNonsense(t *testing.T) {
	for name, body := range map[string][]byte{"short": {0, 0, 0, 1}, "flag": {0, 0, 0, 1, 2}} {
		if _, _, _, err := NewAssembler().Add(body); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	assembler := NewAssembler()
	part := append([]byte{0, 0, 0, 1, 0}, make([]byte, 60<<10)...)
	var err error
	for range MaxMessage/(60<<10) + 1 {
		if _, _, _, err = assembler.Add(part); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("a message without end: %v", err)
	}
}

func TestSplit(t *testing.T) {
	message := append(binary.BigEndian.AppendUint32(nil, 3), "abcpayload"...)
	header, payload, err := Split(message)
	if string(header) != "abc" || string(payload) != "payload" || err != nil {
		t.Errorf("%s %s %v", header, payload, err)
	}
	for _, short := range [][]byte{{}, {0, 0, 0}, {0, 0, 0, 9, 1}} {
		if _, _, err := Split(short); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v: %v", short, err)
		}
	}
}

// peer reads frames, acknowledges when told to and checks that the window is kept.
type peer struct {
	mu         sync.Mutex
	cond       *sync.Cond
	taken      uint64
	acked      uint64
	order      []uint32
	messages   map[uint32][]byte
	assembler  *Assembler
	violations int
}

func startPeer(source io.Reader) *peer {
	p := &peer{messages: map[uint32][]byte{}, assembler: NewAssembler()}
	p.cond = sync.NewCond(&p.mu)
	go func() {
		frames := NewReader(source)
		for {
			kind, body, err := frames.Next()
			if err != nil {
				return
			}
			p.mu.Lock()
			if kind == Part {
				p.taken += uint64(len(body) + 1 + PrefixLength)
				if p.taken-p.acked > Window {
					p.violations++
				}
				stream, message, complete, _ := p.assembler.Add(body)
				p.order = append(p.order, stream)
				if complete {
					p.messages[stream] = bytes.Clone(message)
				}
			}
			p.cond.Broadcast()
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *peer) wait(ready func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !ready() {
		p.cond.Wait()
	}
}

func TestSenderKeepsTheWindowAndTakesTurns(t *testing.T) {
	in, out := io.Pipe()
	sender := NewSender(out, func() { t.Error("a write failed") })
	p := startPeer(in)
	long := random(3 << 20)
	go sender.Send(1, Message{Header: []byte("{}"), Payload: [][]byte{long[:100], {}, long[100:]}})
	p.wait(func() bool { return p.taken > Window-ChunkLength-2*PartOverhead })
	sender.Send(2, Message{Header: []byte(`{"short":1}`)})
	sender.Control(Ping, nil)
	for {
		p.mu.Lock()
		p.acked = p.taken
		total, done := p.taken, len(p.messages) == 2
		p.mu.Unlock()
		if done {
			break
		}
		if err := sender.Acknowledged(total); err != nil {
			t.Fatal(err)
		}
		p.wait(func() bool { return p.taken > total || len(p.messages) == 2 })
	}
	if p.violations > 0 {
		t.Errorf("%d times over the window", p.violations)
	}
	if _, payload, _ := Split(p.messages[1]); !bytes.Equal(payload, long) {
		t.Error("the long message changed")
	}
	for index, stream := range p.order {
		if stream == 2 && index > 12 {
			t.Errorf("the short message was chunk %d", index)
		}
	}
}

func TestSenderEndsAtAFailedWrite(t *testing.T) {
	in, out := io.Pipe()
	in.Close()
	failures := 0
	sender := NewSender(out, func() { failures++ })
	sender.Send(1, Message{Header: []byte("{}")})
	sender.Send(2, Message{Header: []byte("{}")})
	sender.Close()
	<-sender.Flushed()
	if failures != 1 {
		t.Errorf("%d failures", failures)
	}
}

func TestSenderRefusesImpossibleAcknowledgements(t *testing.T) {
	sender := NewSender(io.Discard, func() {})
	sender.sent, sender.acked = 100, 50
	for _, total := range []uint64{101, 49} {
		if err := sender.Acknowledged(total); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d: %v", total, err)
		}
	}
}

func TestSenderEndsWithWhatIsInControl(t *testing.T) {
	var out bytes.Buffer
	sender := NewSender(&out, func() {})
	sender.Control(Goodbye, []byte("{}"))
	sender.Close()
	sender.Send(1, Message{})
	sender.Control(Ping, nil)
	<-sender.Flushed()
	if !bytes.Equal(out.Bytes(), new(Encoder).Append(nil, Goodbye, []byte("{}"))) {
		t.Errorf("%x", out.Bytes())
	}
	if kind, _, err := NewReader(&out).Next(); kind != Goodbye || err != nil {
		t.Errorf("%d %v", kind, err)
	}
}

// The same bytes as in tests/unit/test_protocol.py.
func TestKnownBytes(t *testing.T) {
	var out bytes.Buffer
	sender := NewSender(&out, func() {})
	sender.Send(7, Message{Payload: [][]byte{[]byte("a"), []byte("b")}})
	sender.Acknowledge(258)
	sender.Close()
	<-sender.Flushed()
	if got := hex.EncodeToString(out.Bytes()); got != "0000000ce40600cf02000000070100000000616200000009a1ead831030000000000000102" {
		t.Error(got)
	}
}
