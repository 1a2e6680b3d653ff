// Package journal keeps the episode's finished turns, so that a restarted operator can go on at the next token.
package journal

import (
	"bytes"
	"sync"

	"episodes.dev/runner/internal/fault"
)

// MaxBytes bounds all entries together.
const MaxBytes = 32 << 20

// Journal is a list of entries that only grows.
type Journal struct {
	mu      sync.Mutex
	entries [][]byte
	used    int
}

// Append adds the entry at index, which is the number of entries so far. Repeating an append changes nothing.
func (j *Journal) Append(index int, entry []byte) (length int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case index < 0 || index > len(j.entries):
		return 0, fault.New(fault.JournalConflict, "entry %d cannot follow %d entries", index, len(j.entries))
	case index < len(j.entries):
		if !bytes.Equal(j.entries[index], entry) {
			return 0, fault.New(fault.JournalConflict, "entry %d exists with other content", index)
		}
	case j.used+len(entry) > MaxBytes:
		return 0, fault.New(fault.JournalFull, "%d entries take %d of %d bytes, %d more do not fit: end the episode here",
			len(j.entries), j.used, MaxBytes, len(entry))
	default:
		j.entries = append(j.entries, bytes.Clone(entry))
		j.used += len(entry)
	}
	return len(j.entries), nil
}

// Read returns entries from first on, as many as fit into most bytes but at least one, and the number of all.
func (j *Journal) Read(first, most int) (entries [][]byte, length int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for index := max(first, 0); index < len(j.entries); index++ {
		if most -= len(j.entries[index]); most < 0 && len(entries) > 0 {
			break
		}
		entries = append(entries, j.entries[index])
	}
	return entries, len(j.entries)
}

// Length is the number of entries.
func (j *Journal) Length() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries)
}
