package proc

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func join(pieces [][]byte) []byte { return bytes.Join(pieces, nil) }

func someBytes(length int) []byte {
	data := make([]byte, length)
	for index := range data {
		data[index] = byte(rand.Uint32())
	}
	return data
}

// cut hands data over in pieces of random lengths.
func cut(data []byte, write func([]byte)) {
	for len(data) > 0 {
		n := 1 + rand.IntN(len(data))
		write(data[:n])
		data = data[n:]
	}
}

func TestHeadTailKeepsExactlyBothEnds(t *testing.T) {
	for range 3000 {
		limit, length := rand.IntN(40), rand.IntN(100)
		data := someBytes(length)
		kept := NewHeadTail(limit)
		cut(data, kept.Write)
		want := data
		if length > limit {
			want = append(bytes.Clone(data[:limit-limit/2]), data[length-limit/2:]...)
		}
		if !bytes.Equal(join(kept.Pieces()), want) {
			t.Fatalf("limit %d, length %d: %d bytes differ", limit, length, len(want))
		}
		described := kept.Describe()
		if described.TotalBytes != int64(length) || described.KeptBytes != len(want) ||
			described.OmittedBytes != int64(length-len(want)) || described.HeadBytes != min(length, limit-limit/2) {
			t.Fatalf("limit %d, length %d: %+v", limit, length, described)
		}
	}
}

func TestRingAddressesByOffset(t *testing.T) {
	for range 3000 {
		limit, length := 1+rand.IntN(40), rand.IntN(100)
		data := someBytes(length)
		ring := NewRing(limit)
		cut(data, ring.Write)
		cursor, most := rand.IntN(110), 1+rand.IntN(50)
		first := max(0, length-limit)
		from := min(max(cursor, first), length)
		to := min(from+most, length)
		got, next, dropped := ring.Since(int64(cursor), most)
		if !bytes.Equal(got, data[from:to]) || next != int64(to) || dropped != int64(max(0, first-cursor)) {
			t.Fatalf("limit %d, length %d, cursor %d, most %d: %d bytes, next %d, dropped %d",
				limit, length, cursor, most, len(got), next, dropped)
		}
	}
}

func TestStateIsFoundBetweenItsMarks(t *testing.T) {
	report := "noise n\x00/tmp\x00A=1\x00B=x=y\nz\x00_=/bin/x\x00SHLVL=1\x00n\x00 noise"
	got, found := parseState([]byte(report), "n")
	if !found || got.cwd != "/tmp" || len(got.env) != 2 || got.env[1] != "B=x=y\nz" {
		t.Errorf("%+v %v", got, found)
	}
	for _, broken := range []string{"", "n\x00/tmp\x00A=1", "other\x00/tmp\x00other\x00"} {
		if _, found := parseState([]byte(broken), "n"); found {
			t.Errorf("%q was taken", broken)
		}
	}
}

func TestCallEnvIsTakenBack(t *testing.T) {
	after := []string{"A=call", "B=changed", "C=call", "D=own"}
	kept := withoutCallEnv(after, []string{"C=before"}, map[string]string{"A": "call", "B": "call", "C": "call"})
	if len(kept) != 3 || kept[0] != "B=changed" || kept[1] != "C=before" || kept[2] != "D=own" {
		t.Errorf("%v", kept)
	}
}
