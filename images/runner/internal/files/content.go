package files

import (
	"archive/tar"
	"bytes"
	"io"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// makeFile replaces what is there. What cannot be removed, a mount point or a file in a directory of another user's, is
// written over; and what cannot be written to must have the content already.
func (x *extractor) makeFile(at spot, header *tar.Header, content io.Reader) error {
	if header.Size > x.limitBytes-x.bytes {
		return fault.New(fault.ArchiveTooLarge, "more than %d bytes", x.limitBytes)
	}
	x.bytes += header.Size
	const flags = unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	removed := x.remove(at)
	if removed == nil {
		file, err := unix.Openat(at.directory, at.name, flags|unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err != nil {
			return x.fail(at, err)
		}
		defer unix.Close(file)
		if err := x.copy(at, file, content); err != nil {
			return err
		}
		return x.check(at, x.set(at, file, x.attributesOf(header)))
	}
	if !cannotGo(removed) {
		return x.fail(at, removed)
	}
	file, err := unix.Openat(at.directory, at.name, flags|unix.O_WRONLY, 0)
	if cannotGo(err) {
		return x.compare(at, header, content)
	}
	if err != nil {
		return x.fail(at, err)
	}
	defer unix.Close(file)
	if err := unix.Ftruncate(file, 0); err != nil {
		return x.fail(at, err) // EINVAL for what is no file
	}
	if err := x.copy(at, file, content); err != nil {
		return err
	}
	if err := x.set(at, file, x.attributesOf(header)); err != unix.EPERM {
		return x.check(at, err)
	}
	return nil
}

// each gives the content of an entry piece by piece.
func (x *extractor) each(content io.Reader, visit func(piece []byte) error) error {
	for {
		n, err := content.Read(x.buffer)
		if n > 0 {
			if err := visit(x.buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
	}
}

func (x *extractor) copy(at spot, file int, content io.Reader) error {
	return x.each(content, func(piece []byte) error {
		for len(piece) > 0 {
			n, err := unix.Write(file, piece)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return x.fail(at, err)
			}
			piece = piece[n:]
		}
		return nil
	})
}

func (x *extractor) compare(at spot, header *tar.Header, content io.Reader) error {
	file, err := unix.Openat(at.directory, at.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return x.fail(at, err)
	}
	defer unix.Close(file)
	var stat unix.Stat_t
	if err := unix.Fstat(file, &stat); err != nil {
		return x.fail(at, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size != header.Size {
		return x.fail(at, unix.EACCES)
	}
	there := make([]byte, len(x.buffer))
	return x.each(content, func(piece []byte) error {
		n, err := readFull(file, there[:len(piece)])
		if err != nil {
			return x.fail(at, err)
		}
		if !bytes.Equal(there[:n], piece) {
			return x.fail(at, unix.EACCES)
		}
		return nil
	})
}
