package files

import (
	"archive/tar"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// tarball writes paths into a tar.
type tarball struct {
	archive *tar.Writer
	stopped *atomic.Bool
	limit   int64 // bytes of content
	content int64
	missing map[string]string // by asked path
	limited []string          // those of them that a limit keeps out
	written []string
	buffer  []byte
}

// add puts an asked path into the archive, or what keeps it out of it into missing.
func (t *tarball) add(wanted askedPath) error {
	asked := wanted.asked
	where, err := locate(wanted.path, true)
	if err != nil {
		t.missing[asked] = reason(err)
		return nil
	}
	defer where.close()
	for _, other := range t.written {
		if wanted.path == other || strings.HasPrefix(wanted.path, strings.TrimRight(other, "/")+"/") {
			return nil
		}
	}
	size, err := t.measure(where)
	if err == nil && size > t.limit-t.content {
		err = fault.New(fault.ArchiveTooLarge, "its %d bytes would pass the limit of %d bytes", size, t.limit)
	}
	if err == errStopped {
		return err
	}
	if err != nil {
		t.missing[asked] = reason(err)
		if isTooLarge(err) {
			t.limited = append(t.limited, asked)
		}
		return nil
	}
	t.written = append(t.written, where.path)
	return t.write(where, asked)
}

func reason(err error) string {
	known := fault.From(err)
	if known.Errno == "ELOOP" {
		return "a symbolic link is on the way to it"
	}
	return known.Message
}

// measure counts the bytes of the files at and below a path.
func (t *tarball) measure(where place) (size int64, err error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(where.directory, where.name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, fault.OnPath(where.path, err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFLNK, unix.S_IFDIR:
	default:
		return 0, fault.New(fault.FileError, "it is a pipe, socket or device")
	}
	measuring := walker{stopped: t.stopped, unreadable: func(string, error) {}}
	measuring.visit = func(at *found) error {
		if at.kind() == unix.S_IFREG {
			size += at.stat.Size
		}
		return nil
	}
	return size, measuring.walk(where.directory, where.name, where.path, 0)
}

// denied is what keeps one entry out of an archive that goes on without it.
type denied struct{ error }

// write walks again, so that what is in the archive is what is there now.
func (t *tarball) write(where place, asked string) error {
	count, first := 0, ""
	writing := walker{stopped: t.stopped}
	writing.unreadable = func(path string, err error) {
		if count++; count == 1 {
			first = reason(fault.OnPath(path, err))
			if path != where.path {
				first = fmt.Sprintf("%q cannot be read: %s", path, first)
			}
		}
	}
	writing.visit = func(at *found) error {
		err := t.entry(at)
		if kept, ok := err.(denied); ok {
			writing.failed(at.path, kept.error)
			return nil
		}
		return err
	}
	err := writing.walk(where.directory, where.name, where.path, 0)
	if count > 0 {
		t.missing[asked] = first
	}
	if count > 1 {
		t.missing[asked] = fmt.Sprintf("%s, and %d more", first, count-1)
	}
	if isTooLarge(err) {
		return changed(where.path) // it was not, when it was measured
	}
	return err
}

func isTooLarge(err error) bool {
	var own *fault.Error
	return errors.As(err, &own) && own.Reason == fault.ArchiveTooLarge
}

// entry writes what a walk has found.
func (t *tarball) entry(at *found) error {
	header := &tar.Header{
		Format: tar.FormatPAX, Name: strings.TrimPrefix(at.path, "/"), Mode: int64(at.stat.Mode & 0o7777),
		Uid: int(at.stat.Uid), Gid: int(at.stat.Gid), ModTime: time.Unix(at.stat.Mtim.Unix()),
	}
	switch at.kind() {
	case unix.S_IFREG:
		return t.file(at, header)
	case unix.S_IFLNK:
		var buffer [unix.PathMax]byte
		n, err := unix.Readlinkat(at.directory, at.name, buffer[:])
		if err != nil {
			return denied{err}
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, string(buffer[:n])
	case unix.S_IFDIR:
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		if at.path == "/" {
			header.Name = "./"
		}
	}
	return t.archive.WriteHeader(header)
}

// file writes a regular file. A small one is read before its header is written, so it may grow meanwhile; of a larger one
// the header tells the size first, and the file must keep to it.
func (t *tarball) file(at *found, header *tar.Header) error {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	file, err := unix.Openat(at.directory, at.name, flags, 0)
	if err != nil {
		return denied{err}
	}
	defer unix.Close(file)
	var stat unix.Stat_t
	if err := unix.Fstat(file, &stat); err != nil {
		return denied{err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return changed(at.path)
	}
	n, err := readFull(file, t.buffer)
	if err != nil {
		return denied{err}
	}
	header.Typeflag, header.Size = tar.TypeReg, int64(n)
	if n == len(t.buffer) {
		header.Size = stat.Size
	}
	if header.Size < int64(n) || header.Size > t.limit-t.content {
		return changed(at.path)
	}
	t.content += header.Size
	if err := t.archive.WriteHeader(header); err != nil {
		return err
	}
	for left := header.Size; ; {
		if _, err := t.archive.Write(t.buffer[:n]); err != nil {
			return err
		}
		if left -= int64(n); n < len(t.buffer) {
			return nil
		}
		if t.stopped.Load() {
			return errStopped
		}
		if n, err = readFull(file, t.buffer); err != nil {
			return fault.OnPath(at.path, err)
		}
		if int64(n) > left || (n < len(t.buffer) && int64(n) < left) {
			return changed(at.path)
		}
	}
}

// readFull reads until the buffer is full or the file ends.
func readFull(file int, buffer []byte) (filled int, err error) {
	for filled < len(buffer) {
		n, err := unix.Read(file, buffer[filled:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return filled, err
		}
		filled += n
	}
	return filled, nil
}

func changed(path string) error {
	return &fault.Error{Reason: fault.FileChanged, Path: path, Message: "changed while it was packed; pack it again"}
}
