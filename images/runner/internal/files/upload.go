package files

import (
	"sync"

	"episodes.dev/runner/internal/fault"
)

// maxUploads bounds how many files may be half written at a time.
const maxUploads = 256

type upload struct {
	mu     sync.Mutex
	client string
	draft  *draft // nil once it is committed or abandoned
	sealed *Packed
}

type uploads struct {
	mu   sync.Mutex
	open map[string]*upload
}

// OpenUpload begins a file that comes in chunks.
func (s *Service) OpenUpload(name, client string, request WriteRequest) error {
	made, err := s.newDraft(request)
	if err != nil {
		return err
	}
	return s.uploads.add(name, client, made)
}

// WriteUpload writes one chunk. Chunks may come in any order and more than once.
func (s *Service) WriteUpload(name string, offset int64, data []byte) error {
	found, err := s.uploads.find(name)
	if err != nil {
		return err
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.draft == nil || offset < 0 {
		return notFound(name)
	}
	return found.draft.writeAt(data, offset)
}

// CommitUpload checks the file and puts it in its place.
func (s *Service) CommitUpload(name string) (Written, error) {
	found := s.uploads.take(name)
	if found == nil {
		return Written{}, notFound(name)
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	made := found.draft
	found.draft = nil
	return made.commit()
}

// AbortUpload removes what was written; an unknown upload is fine.
func (s *Service) AbortUpload(name string) {
	if found := s.uploads.take(name); found != nil {
		found.mu.Lock()
		defer found.mu.Unlock()
		found.draft.abandon()
		found.draft = nil
	}
}

// AbortOthers removes the half-written files and drops the packs of every client but this one.
func (s *Service) AbortOthers(client string) {
	s.packs.closeOthers(client)
	s.uploads.mu.Lock()
	var names []string
	for name, open := range s.uploads.open {
		if open.client != client {
			names = append(names, name)
		}
	}
	s.uploads.mu.Unlock()
	for _, name := range names {
		s.AbortUpload(name)
	}
}

func (u *uploads) add(name, client string, made *draft) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open[name] != nil || len(u.open) >= maxUploads {
		made.abandon()
		return fault.New(fault.InvalidRequest, "upload %q exists, or %d files are half written already", name, maxUploads)
	}
	u.open[name] = &upload{client: client, draft: made}
	return nil
}

func (u *uploads) find(name string) (*upload, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if found := u.open[name]; found != nil {
		return found, nil
	}
	return nil, notFound(name)
}

func (u *uploads) take(name string) *upload {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := u.open[name]
	delete(u.open, name)
	return found
}

func notFound(name string) error {
	return fault.New(fault.UploadNotFound, "no open upload %q: open it first", name)
}
