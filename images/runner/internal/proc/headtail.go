package proc

// HeadTail keeps the first and the last bytes of an output and counts the rest.
type HeadTail struct {
	headLimit int
	tailLimit int
	head      []byte
	tail      []byte
	next      int // where the ring's next byte goes, once the ring is full
	total     int64
}

// NewHeadTail keeps at most limit bytes, half of them from the beginning.
func NewHeadTail(limit int) *HeadTail {
	return &HeadTail{headLimit: limit - limit/2, tailLimit: limit / 2}
}

func (h *HeadTail) Write(data []byte) {
	h.total += int64(len(data))
	if room := h.headLimit - len(h.head); room > 0 {
		taken := min(room, len(data))
		h.head = append(h.head, data[:taken]...)
		data = data[taken:]
	}
	if len(data) > h.tailLimit {
		data = data[len(data)-h.tailLimit:]
	}
	if room := h.tailLimit - len(h.tail); room > 0 && len(data) > 0 {
		taken := min(room, len(data))
		h.tail = append(h.tail, data[:taken]...)
		data = data[taken:]
	}
	for len(data) > 0 {
		taken := copy(h.tail[h.next:], data)
		h.next = (h.next + taken) % h.tailLimit
		data = data[taken:]
	}
}

// Pieces are the kept bytes in order.
func (h *HeadTail) Pieces() [][]byte {
	return [][]byte{h.head, h.tail[h.next:], h.tail[:h.next]}
}

// Output describes what was kept.
type Output struct {
	TotalBytes   int64 `json:"totalBytes"`
	KeptBytes    int   `json:"keptBytes"`
	HeadBytes    int   `json:"headBytes"`
	OmittedBytes int64 `json:"omittedBytes"`
}

// Describe gives the exact counts.
func (h *HeadTail) Describe() Output {
	kept := len(h.head) + len(h.tail)
	return Output{TotalBytes: h.total, KeptBytes: kept, HeadBytes: len(h.head), OmittedBytes: h.total - int64(kept)}
}
