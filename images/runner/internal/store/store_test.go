package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/wire"
)

func reasonOf(err error) string {
	var typed *fault.Error
	if errors.As(err, &typed) {
		return typed.Reason
	}
	return ""
}

func message(text string) wire.Message { return wire.Message{Header: []byte(text)} }

func TestConcurrentRepetitionsRunOnce(t *testing.T) {
	s := New()
	digest := DigestOf("exec", []byte("{}"), nil)
	var mu sync.Mutex
	var answers []string
	deliver := func(m wire.Message) { mu.Lock(); answers = append(answers, string(m.Header)); mu.Unlock() }
	runs := 0
	var group sync.WaitGroup
	for range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			run, err := s.Begin("a", digest, 10, deliver)
			if err != nil {
				t.Error(err)
			}
			if run {
				mu.Lock()
				runs++
				mu.Unlock()
				s.Finish("a", message("done"))
			}
		}()
	}
	group.Wait()
	if run, _ := s.Begin("a", digest, 10, deliver); run {
		t.Error("ran again after its end")
	}
	if runs != 1 || len(answers) != 51 {
		t.Errorf("%d runs, %d answers", runs, len(answers))
	}
}

func TestOtherContentIsAConflict(t *testing.T) {
	s := New()
	deliver := func(wire.Message) {}
	_, _ = s.Begin("a", DigestOf("exec", []byte("1"), nil), 0, deliver)
	for name, other := range map[string]Digest{
		"parameters": DigestOf("exec", []byte("2"), nil), "operation": DigestOf("kill", []byte("1"), nil),
		"payload": DigestOf("exec", []byte("1"), []byte("x")), "boundary": DigestOf("exec", nil, []byte("1")),
	} {
		if run, err := s.Begin("a", other, 0, deliver); run || reasonOf(err) != fault.RequestConflict {
			t.Errorf("%s: %v %v", name, run, err)
		}
	}
}

func TestFullStoreRefusesBeforeRunning(t *testing.T) {
	s := New()
	deliver := func(wire.Message) {}
	_, err := s.Begin("a", Digest{}, MaxBytes/2, deliver)
	if err != nil {
		t.Fatal(err)
	}
	if run, err := s.Begin("b", Digest{}, MaxBytes/2, deliver); run || reasonOf(err) != fault.ResultStoreFull {
		t.Fatalf("%v %v", run, err)
	}
	// What was reserved and not used is free again.
	s.Finish("a", message("small"))
	if run, err := s.Begin("b", Digest{}, MaxBytes/2, deliver); !run {
		t.Fatal(err)
	}
}

func TestForget(t *testing.T) {
	s := New()
	delivered := 0
	deliver := func(wire.Message) { delivered++ }
	_, _ = s.Begin("running", Digest{}, 0, deliver)
	_, _ = s.Begin("done", Digest{}, 0, deliver)
	s.Finish("done", message(""))
	s.Forget([]string{"running", "done", "unknown"})
	if kept := s.List(); len(kept) != 1 || kept[0].ID != "running" || kept[0].Done {
		t.Errorf("%v", kept)
	}
	s.Finish("running", message(""))
	if len(s.List()) != 0 || s.used != 0 || delivered != 2 {
		t.Errorf("%v, %d bytes, %d delivered", s.List(), s.used, delivered)
	}
	if run, _ := s.Begin("done", Digest{}, 0, deliver); !run {
		t.Error("a forgotten id must be new")
	}
}

func TestAutomaticIdsDieWithTheirClient(t *testing.T) {
	s := New()
	for _, id := range []string{"~one-1", "~one-2", "~two-1", "mine"} {
		_, _ = s.Begin(id, Digest{}, 0, func(wire.Message) {})
		if id != "~one-2" {
			s.Finish(id, message(""))
		}
	}
	s.ForgetOthers("two")
	s.Finish("~one-2", message(""))
	var ids []string
	for _, kept := range s.List() {
		ids = append(ids, kept.ID)
	}
	if got := strings.Join(ids, " "); got != "mine ~two-1" {
		t.Error(got)
	}
}

func TestTooManyResults(t *testing.T) {
	s := New()
	var err error
	for index := range MaxEntries + 1 {
		_, err = s.Begin(fmt.Sprint(index), Digest{}, 0, func(wire.Message) {})
	}
	if reasonOf(err) != fault.ResultStoreFull {
		t.Error(err)
	}
}
