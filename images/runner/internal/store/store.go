// Package store makes requests run at most once: it keeps what each one answered until the caller forgets it.
package store

import (
	"crypto/sha256"
	"sort"
	"strings"
	"sync"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/wire"
)

const (
	// MaxBytes bounds all kept results together, and the room reserved for running requests.
	MaxBytes = 64 << 20
	// MaxEntries bounds their number.
	MaxEntries = 16384
	// AutomaticPrefix marks ids that die with the client that made them: "~" client "-" number.
	AutomaticPrefix = "~"

	entryOverhead = 256
)

// Digest identifies a request's content.
type Digest [sha256.Size]byte

// DigestOf hashes an operation with its parameters and payload.
func DigestOf(operation string, parameters, payload []byte) Digest {
	hash := sha256.New()
	hash.Write([]byte(operation))
	hash.Write([]byte{0})
	hash.Write(parameters)
	hash.Write([]byte{0})
	hash.Write(payload)
	return Digest(hash.Sum(nil))
}

type entry struct {
	digest   Digest
	done     bool
	forget   bool // drop it as soon as it is done
	size     int64
	response wire.Message
	waiting  []func(wire.Message)
}

// Store holds running and finished requests by id.
type Store struct {
	mu      sync.Mutex
	entries map[string]*entry
	used    int64
}

// New starts empty.
func New() *Store { return &Store{entries: map[string]*entry{}} }

// Begin registers deliver for the response of id, which may be called at once. It returns true when the caller has to run
// the request and call Finish; reserve is the most bytes that its response may take.
func (s *Store) Begin(id string, digest Digest, reserve int64, deliver func(wire.Message)) (run bool, err error) {
	s.mu.Lock()
	known := s.entries[id]
	if known == nil {
		defer s.mu.Unlock()
		size := reserve + int64(len(id)) + entryOverhead
		if s.used+size > MaxBytes || len(s.entries) >= MaxEntries {
			return false, fault.New(fault.ResultStoreFull,
				"%d results take %d bytes and %d more are asked for, over %d bytes or %d results: forget finished requests or lower output limits",
				len(s.entries), s.used, size, MaxBytes, MaxEntries)
		}
		s.used += size
		s.entries[id] = &entry{digest: digest, size: size, waiting: []func(wire.Message){deliver}}
		return true, nil
	}
	if known.digest != digest {
		s.mu.Unlock()
		return false, fault.New(fault.RequestConflict, "request %q was seen with other content; use a new id", id)
	}
	if !known.done {
		known.waiting = append(known.waiting, deliver)
		s.mu.Unlock()
		return false, nil
	}
	response := known.response
	s.mu.Unlock()
	deliver(response)
	return false, nil
}

// Finish records the response and delivers it to everyone who waits.
func (s *Store) Finish(id string, response wire.Message) {
	s.mu.Lock()
	known := s.entries[id]
	known.done = true
	known.response = response
	waiting := known.waiting
	known.waiting = nil
	size := response.Size() + int64(len(id)) + entryOverhead
	s.used += size - known.size
	known.size = size
	if known.forget {
		s.drop(id, known)
	}
	s.mu.Unlock()
	for _, deliver := range waiting {
		deliver(response)
	}
}

// Forget drops results; a running request loses its result when it ends. Unknown ids are fine.
func (s *Store) Forget(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if known := s.entries[id]; known != nil {
			s.forget(id, known)
		}
	}
}

// ForgetOthers drops the automatic ids of every client but this one.
func (s *Store) ForgetOthers(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, known := range s.entries {
		if strings.HasPrefix(id, AutomaticPrefix) && !strings.HasPrefix(id, AutomaticPrefix+client+"-") {
			s.forget(id, known)
		}
	}
}

func (s *Store) forget(id string, known *entry) {
	if known.done {
		s.drop(id, known)
	} else {
		known.forget = true
	}
}

func (s *Store) drop(id string, known *entry) {
	s.used -= known.size
	delete(s.entries, id)
}

// Kept is one request that the store knows.
type Kept struct {
	ID    string `json:"id"`
	Done  bool   `json:"done"`
	Bytes int64  `json:"bytes"`
}

// List gives all requests by id.
func (s *Store) List() []Kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make([]Kept, 0, len(s.entries))
	for id, known := range s.entries {
		kept = append(kept, Kept{ID: id, Done: known.done, Bytes: known.size})
	}
	sort.Slice(kept, func(i, j int) bool { return kept[i].ID < kept[j].ID })
	return kept
}
