package files

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// UnpackRequest asks for an uploaded archive to be unpacked.
type UnpackRequest struct {
	Path         string   `json:"path"`            // folder; made when it is missing
	Owner        string   `json:"owner,omitempty"` // user, or user:group; else the archive's where the runner is root
	LimitBytes   int64    `json:"limitBytes"`      // of content, after decompression
	LimitEntries int64    `json:"limitEntries"`
	Replace      []string `json:"replace,omitempty"` // removed first
}

// Unpacked says what was unpacked.
type Unpacked struct {
	Packed
	Entries int64 `json:"entries"`
}

// Unpack unpacks an upload that was sealed. It never leaves the folder and follows no link, whether it was there before or
// comes from the archive itself. What was unpacked before an error stays.
func (s *Service) Unpack(name string, request UnpackRequest) (result Unpacked, err error) {
	uid, gid, err := owner(request.Owner)
	if err != nil {
		return result, err
	}
	path, err := Target{Path: request.Path, RefuseLinks: true}.absolute(s.WorkingDir)
	if err != nil {
		return result, err
	}
	taken := s.uploads.take(name)
	if taken == nil {
		return result, notFound(name)
	}
	taken.mu.Lock()
	defer taken.mu.Unlock()
	archive := taken.draft
	taken.draft = nil
	defer archive.abandon()
	if taken.sealed == nil {
		return result, fault.New(fault.InvalidRequest, "upload %q is not sealed", name)
	}
	err = asUser("", func() error {
		if err := s.clearAll(request.Replace); err != nil {
			return err
		}
		folder, err := openFolder(path, uid, gid)
		if err != nil {
			return err
		}
		unpacking := newExtractor(folder, path, request.LimitBytes, request.LimitEntries)
		unpacking.uid, unpacking.gid = uid, gid
		defer unpacking.close()
		err = unpackInto(unpacking, &spoolReader{from: archive})
		result = Unpacked{Packed: *taken.sealed, Entries: unpacking.entries}
		return err
	})
	return result, err
}

// clearAll removes what is at the paths. What cannot be removed stays, for the archive to replace its content.
func (s *Service) clearAll(paths []string) error {
	for _, asked := range paths {
		path, err := Target{Path: asked, RefuseLinks: true}.absolute(s.WorkingDir)
		if err != nil {
			return err
		}
		where, err := locate(path, true)
		if missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		removing := newRemover()
		removing.lenient = true
		_, err = removing.clear(where)
		where.close()
		if err != nil && !cannotGo(err) {
			return fault.OnPath(path, err)
		}
	}
	return nil
}

func missing(err error) bool {
	var own *fault.Error
	return errors.As(err, &own) && own.Errno == "ENOENT"
}

// openFolder opens the folder to unpack in, which is made when it is missing.
func openFolder(path string, uid, gid int) (int, error) {
	if err := makeParents(path, true, false); err != nil {
		return -1, err
	}
	where, err := locate(path, true)
	if err != nil {
		return -1, err
	}
	defer where.close()
	made := unix.Mkdirat(where.directory, where.name, 0o755)
	if made != nil && made != unix.EEXIST {
		return -1, fault.OnPath(path, made)
	}
	folder, err := openDirectory(where, true)
	if err != nil || made != nil || uid < 0 {
		return folder, err
	}
	if err := unix.Fchown(folder, uid, gid); err != nil {
		unix.Close(folder)
		return -1, fault.OnPath(path, err)
	}
	return folder, nil
}

// maxPadding bounds what may follow the end of the tar in its compressed stream.
const maxPadding = 1 << 20

// unpackInto reads a gzipped tar to its end.
func unpackInto(unpacking *extractor, compressed io.Reader) error {
	stream, err := gzip.NewReader(bufio.NewReaderSize(compressed, 64<<10))
	if err != nil {
		return damaged(err)
	}
	if err := extractAll(unpacking, stream); err != nil {
		return err
	}
	// To the end, so that its checksum is looked at.
	padding, err := io.Copy(io.Discard, io.LimitReader(stream, maxPadding))
	if err != nil {
		return damaged(err)
	}
	if padding == maxPadding {
		return fault.New(fault.InvalidArchive, "%d bytes and more follow the end of the tar", padding)
	}
	return unpacking.finish()
}

func extractAll(unpacking *extractor, stream io.Reader) error {
	archive := tar.NewReader(stream)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		if err := unpacking.extract(header, archive); err != nil {
			return err
		}
	}
}

// damaged blames the archive for what its readers report, but for errors of the disk that it is on.
func damaged(err error) error {
	var own *fault.Error
	if errors.As(err, &own) {
		return own
	}
	return fault.New(fault.InvalidArchive, "not a whole gzipped tar: %v", err)
}
