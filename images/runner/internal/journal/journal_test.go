package journal

import (
	"errors"
	"testing"

	"episodes.dev/runner/internal/fault"
)

func reasonOf(err error) string {
	var typed *fault.Error
	if errors.As(err, &typed) {
		return typed.Reason
	}
	return ""
}

func TestAppendIsIdempotentAndHasNoGaps(t *testing.T) {
	j := &Journal{}
	steps := []struct {
		index  int
		entry  string
		length int
		reason string
	}{
		{0, "a", 1, ""}, {0, "a", 1, ""}, {1, "b", 2, ""}, {0, "a", 2, ""},
		{0, "x", 0, fault.JournalConflict}, {3, "d", 0, fault.JournalConflict}, {-1, "d", 0, fault.JournalConflict},
		{2, "", 3, ""}, {3, "d", 4, ""},
	}
	for _, step := range steps {
		length, err := j.Append(step.index, []byte(step.entry))
		if length != step.length || reasonOf(err) != step.reason {
			t.Errorf("%+v: %d %v", step, length, err)
		}
	}
	entries, length := j.Read(1, 100)
	if length != 4 || len(entries) != 3 || string(entries[0]) != "b" || string(entries[2]) != "d" {
		t.Errorf("%q %d", entries, length)
	}
}

func TestAnEntryIsCopied(t *testing.T) {
	j := &Journal{}
	entry := []byte("abc")
	_, _ = j.Append(0, entry)
	entry[0] = 'x'
	if entries, _ := j.Read(0, 10); string(entries[0]) != "abc" {
		t.Errorf("%q", entries)
	}
}

func TestReadInPages(t *testing.T) {
	j := &Journal{}
	for index := range 10 {
		_, _ = j.Append(index, make([]byte, 1000))
	}
	if entries, length := j.Read(0, 3500); len(entries) != 3 || length != 10 {
		t.Errorf("%d of %d", len(entries), length)
	}
	if entries, _ := j.Read(9, 1); len(entries) != 1 {
		t.Error("a page holds at least one entry")
	}
	if entries, _ := j.Read(10, 100); len(entries) != 0 {
		t.Error("beyond the end")
	}
}

func TestFull(t *testing.T) {
	j := &Journal{}
	if _, err := j.Append(0, make([]byte, MaxBytes)); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(1, []byte("x")); reasonOf(err) != fault.JournalFull {
		t.Error(err)
	}
	if length, err := j.Append(0, make([]byte, MaxBytes)); length != 1 || err != nil {
		t.Error("repeating an entry needs no room")
	}
}
