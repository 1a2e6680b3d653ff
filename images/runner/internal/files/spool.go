package files

import (
	"io"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// OpenArchive begins an upload of an archive that will be unpacked under path. It goes to a file without a name, so that
// nothing in the container can change it.
func (s *Service) OpenArchive(name, client string, target Target) error {
	path, err := target.absolute(s.WorkingDir)
	if err != nil {
		return err
	}
	var made *draft
	err = asUser("", func() error {
		made, err = s.newSpool(path)
		return err
	})
	if err != nil {
		return err
	}
	return s.uploads.add(name, client, made)
}

// newSpool makes a file without a name as near to path as one can be made.
func (s *Service) newSpool(path string) (*draft, error) {
	folders := []string{path}
	for path != "/" {
		path = filepath.Dir(path)
		folders = append(folders, path)
	}
	var refusals []error
	for _, folder := range append(folders, "/tmp", s.WorkingDir) {
		file, err := openUnnamed(folder)
		if err == nil {
			return &draft{where: place{directory: -1, path: folder}, file: file}, nil
		}
		refusals = append(refusals, fault.OnPath(folder, err))
	}
	// What is not there yet says less than what may not be written to.
	for _, refusal := range slices.Backward(refusals) {
		if refusal.(*fault.Error).Errno != "ENOENT" {
			return nil, refusal
		}
	}
	return nil, refusals[0]
}

func openUnnamed(folder string) (int, error) {
	directory, err := unix.Open(folder, directoryFlags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(directory)
	file, err := unix.Openat(directory, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != unix.EOPNOTSUPP && err != unix.EISDIR {
		return file, err
	}
	// A file system that does not know such files.
	name := randomName(".episode-upload-")
	file, err = unix.Openat(directory, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, err
	}
	if err := unix.Unlinkat(directory, name, 0); err != nil {
		unix.Close(file)
		return -1, err
	}
	return file, nil
}

// SealUpload checks an uploaded archive. What its packer left out of it is kept with it, for the answer of Unpack.
func (s *Service) SealUpload(name string, sent Packed) error {
	found, err := s.uploads.find(name)
	if err != nil {
		return err
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.draft == nil {
		return notFound(name)
	}
	return asUser("", func() error {
		sum, size, err := found.draft.hash()
		if err != nil {
			return err
		}
		if sum != sent.Sha256 {
			return fault.New(fault.UploadCheckFailure, "sha256 of %d bytes on disk is %s, not %s: send it again",
				size, sum, sent.Sha256)
		}
		sent.SizeBytes = size
		found.sealed = &sent
		return nil
	})
}

// spoolReader reads a draft from its beginning.
type spoolReader struct {
	from   *draft
	offset int64
}

func (r *spoolReader) Read(buffer []byte) (int, error) {
	for {
		n, err := unix.Pread(r.from.file, buffer, r.offset)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, fault.OnPath(r.from.where.path, err)
		case n == 0:
			return 0, io.EOF
		}
		r.offset += int64(n)
		return n, nil
	}
}
