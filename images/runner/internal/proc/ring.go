package proc

import "sync"

// Ring keeps the last bytes of an endless output, addressed by their offset since the beginning.
type Ring struct {
	mu     sync.Mutex
	limit  int
	data   []byte
	next   int
	total  int64
	change chan struct{}
}

// NewRing keeps at most limit bytes.
func NewRing(limit int) *Ring {
	return &Ring{limit: limit, change: make(chan struct{})}
}

func (r *Ring) Write(data []byte) {
	if len(data) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += int64(len(data))
	if len(data) > r.limit {
		data = data[len(data)-r.limit:]
	}
	if room := r.limit - len(r.data); room > 0 {
		taken := min(room, len(data))
		r.data = append(r.data, data[:taken]...)
		data = data[taken:]
	}
	for len(data) > 0 {
		taken := copy(r.data[r.next:], data)
		r.next = (r.next + taken) % r.limit
		data = data[taken:]
	}
	close(r.change)
	r.change = make(chan struct{})
}

// Since returns a copy of at most most bytes from cursor on, the cursor after them, and how many bytes between cursor
// and the first returned one are gone.
func (r *Ring) Since(cursor int64, most int) (data []byte, next, dropped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.total - int64(len(r.data))
	if cursor < first {
		dropped = first - cursor
		cursor = first
	}
	if cursor > r.total {
		cursor = r.total
	}
	ordered := append(append([]byte{}, r.data[r.next:]...), r.data[:r.next]...)
	data = ordered[cursor-first:]
	if len(data) > most {
		data = data[:most]
	}
	return data, cursor + int64(len(data)), dropped
}

// Changed is closed at the next write after the call.
func (r *Ring) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.change
}

// Total is the number of bytes ever written.
func (r *Ring) Total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}
