package files

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"iter"
	"sync/atomic"
)

// pieces makes the archive.
func pieces(paths []askedPath, limit int64, stopped *atomic.Bool) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		out := &cutter{yield: yield, hash: sha256.New()}
		compressed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
		if err != nil {
			yield(piece{err: err})
			return
		}
		made := &tarball{
			archive: tar.NewWriter(compressed), stopped: stopped, limit: limit,
			missing: map[string]string{}, buffer: make([]byte, packChunk),
		}
		for _, path := range paths {
			if err = made.add(path); err != nil {
				break
			}
		}
		if err == nil {
			err = made.archive.Close()
		}
		if err == nil {
			err = compressed.Close()
		}
		switch {
		case out.ended || stopped.Load():
		case err != nil:
			yield(piece{err: err})
		default:
			yield(piece{data: out.data, packed: &Packed{
				SizeBytes: out.size, Sha256: hex.EncodeToString(out.hash.Sum(nil)), Missing: made.missing, TooLarge: made.limited,
			}})
		}
	}
}

// cutter cuts what is written to it into pieces. Each has memory of its own, for the one before may still be sent.
type cutter struct {
	yield func(piece) bool
	hash  hash.Hash
	size  int64
	data  []byte
	ended bool
}

func (c *cutter) Write(data []byte) (int, error) {
	c.hash.Write(data)
	c.size += int64(len(data))
	for rest := data; len(rest) > 0; {
		if c.data == nil {
			c.data = make([]byte, 0, packChunk)
		}
		n := min(len(rest), packChunk-len(c.data))
		c.data, rest = append(c.data, rest[:n]...), rest[n:]
		if len(c.data) == packChunk {
			full := c.data
			c.data = nil
			if !c.yield(piece{data: full}) {
				c.ended = true
				return 0, errStopped
			}
		}
	}
	return len(data), nil
}
