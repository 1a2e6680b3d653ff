package files

import (
	"iter"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"episodes.dev/runner/internal/fault"
)

const (
	// packChunk is the most that one read of a pack answers.
	packChunk = 256 << 10
	// maxPacks bounds how many packs are open at a time. Each takes about 2 MiB of the container's memory.
	maxPacks = 4
	// maxPackPaths bounds what one pack is asked for.
	maxPackPaths = 1024
	// packIdle is how long a pack waits for its next read.
	packIdle = 10 * time.Minute
)

// PackRequest asks for paths in a gzipped tar.
type PackRequest struct {
	Paths      []string `json:"paths"`
	LimitBytes int64    `json:"limitBytes"` // of content, before compression
}

// Packed says what an archive turned out to be.
type Packed struct {
	SizeBytes int64             `json:"sizeBytes"`
	Sha256    string            `json:"sha256"`
	Missing   map[string]string `json:"missing"`  // asked paths that are not in it, or not whole, and why
	TooLarge  []string          `json:"tooLarge"` // those of them that a limit keeps out
}

// piece is the next bytes of an archive; the last one tells of the whole, or what ended it.
type piece struct {
	data   []byte
	packed *Packed
	err    error
}

// pack is an archive on its way out. It is made only while somebody reads it: so it takes no thread, and no more memory
// than one piece.
type pack struct {
	mu      sync.Mutex
	client  string
	next    func() (piece, bool)
	end     func()
	stopped atomic.Bool
	idle    *time.Timer
	begun   bool
	last    piece // kept, for its answer may be lost on the way
	offset  int64 // of last
}

type packs struct {
	mu   sync.Mutex
	open map[string]*pack
	idle time.Duration
}

// askedPath is a path as it was asked for, and where that is.
type askedPath struct{ asked, path string }

// OpenPack begins an archive of paths. It reads nothing yet.
func (s *Service) OpenPack(name, client string, request PackRequest) error {
	if len(request.Paths) > maxPackPaths || request.LimitBytes < 0 {
		return fault.New(fault.InvalidRequest, "at most %d paths, and limitBytes >= 0", maxPackPaths)
	}
	var paths []askedPath
	for _, asked := range request.Paths {
		path, err := Target{Path: asked, RefuseLinks: true}.absolute(s.WorkingDir)
		if err != nil {
			return err
		}
		paths = append(paths, askedPath{asked, path})
	}
	sort.Slice(paths, func(i, j int) bool { return paths[i].path < paths[j].path })
	made := &pack{client: client}
	made.next, made.end = iter.Pull(pieces(paths, request.LimitBytes, &made.stopped))
	return s.packs.add(name, made)
}

// ReadPack gives the piece at an offset: the next one, or the last one again.
func (s *Service) ReadPack(name string, offset int64) ([]byte, *Packed, error) {
	reading, err := s.packs.find(name)
	if err != nil {
		return nil, nil, err
	}
	reading.mu.Lock()
	defer reading.mu.Unlock()
	reading.idle.Reset(s.packs.idle)
	after := reading.offset + int64(len(reading.last.data))
	switch {
	case reading.begun && offset == reading.offset:
	case offset == after && reading.last.packed == nil && reading.last.err == nil:
		var more bool
		err := asUser("", func() error {
			reading.last, more = reading.next()
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if !more {
			return nil, nil, packNotFound(name)
		}
		reading.begun, reading.offset = true, after
	default:
		return nil, nil, fault.New(fault.InvalidRequest, "the pack goes on at %d, not at %d", after, offset)
	}
	return reading.last.data, reading.last.packed, reading.last.err
}

// ClosePack drops an archive; an unknown one is fine.
func (s *Service) ClosePack(name string) { s.packs.drop(name) }

func (p *pack) close() {
	p.stopped.Store(true)
	p.idle.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

func (p *packs) add(name string, made *pack) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[name] != nil || len(p.open) >= maxPacks {
		made.end()
		return fault.New(fault.InvalidRequest, "pack %q exists, or %d packs are open already", name, maxPacks)
	}
	p.open[name] = made
	made.idle = time.AfterFunc(p.idle, func() { p.drop(name) })
	return nil
}

func (p *packs) drop(name string) {
	p.mu.Lock()
	dropped := p.open[name]
	delete(p.open, name)
	p.mu.Unlock()
	if dropped != nil {
		dropped.close()
	}
}

func (p *packs) find(name string) (*pack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.open[name]; found != nil {
		return found, nil
	}
	return nil, packNotFound(name)
}

func (p *packs) closeOthers(client string) {
	p.mu.Lock()
	var others []*pack
	for name, open := range p.open {
		if open.client != client {
			others = append(others, open)
			delete(p.open, name)
		}
	}
	p.mu.Unlock()
	for _, other := range others {
		other.close()
	}
}

func packNotFound(name string) error {
	return fault.New(fault.PackNotFound, "no open pack %q: pack again", name)
}
