package files

import (
	"archive/tar"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// makeDirectory keeps a directory that is there. Attributes are set at the end: what comes into the directory changes its
// time, and its mode may forbid that anything does.
func (x *extractor) makeDirectory(at spot, header *tar.Header) error {
	err := unix.Mkdirat(at.directory, at.name, 0o700)
	if err == unix.EEXIST {
		own, openErr := x.keepDirectory(at)
		if openErr == nil && !own {
			return nil
		}
		if err = openErr; err == unix.ENOTDIR {
			if err = x.remove(at); err == nil {
				err = unix.Mkdirat(at.directory, at.name, 0o700)
			}
		}
	}
	if err != nil {
		return x.fail(at, err)
	}
	if x.directoryBytes += len(at.entry) + 256; x.directoryBytes > maxDirectoryBytes {
		return fault.New(fault.ArchiveTooLarge, "the attributes of its directories take more than %d bytes", maxDirectoryBytes)
	}
	x.directories[at.entry] = x.attributesOf(header)
	return nil
}

// keepDirectory lets the runner write to a directory that is there; one of another user's stays as it is.
func (x *extractor) keepDirectory(at spot) (own bool, err error) {
	directory, err := openOwn(at.directory, at.name)
	if err != nil {
		return false, err
	}
	defer unix.Close(directory)
	var stat unix.Stat_t
	if err := unix.Fstat(directory, &stat); err != nil {
		return false, err
	}
	if own = x.user == 0 || int(stat.Uid) == x.user; own && stat.Mode&0o700 != 0o700 {
		err = unix.Fchmod(directory, stat.Mode&0o7777|0o700)
	}
	return own, err
}

// remove removes what is where an entry goes.
func (x *extractor) remove(at spot) error {
	var stat unix.Stat_t
	err := unix.Fstatat(at.directory, at.name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		for name := range x.directories {
			if name == at.entry || strings.HasPrefix(name, at.entry+"/") {
				delete(x.directories, name)
			}
		}
	}
	_, err = newRemover().removeAt(at.directory, at.name, true)
	return err
}

func (x *extractor) check(at spot, err error) error {
	if err != nil {
		return x.fail(at, err)
	}
	return nil
}

// makeLink makes a symbolic link, whatever it points to: nothing here goes through one.
func (x *extractor) makeLink(at spot, header *tar.Header) error {
	if removed := x.remove(at); cannotGo(removed) {
		var buffer [unix.PathMax]byte
		if n, err := unix.Readlinkat(at.directory, at.name, buffer[:]); err == nil && string(buffer[:n]) == header.Linkname {
			return nil
		}
		return x.fail(at, removed)
	} else if removed != nil {
		return x.fail(at, removed)
	}
	if err := unix.Symlinkat(header.Linkname, at.directory, at.name); err != nil {
		return x.fail(at, err)
	}
	wanted := x.attributesOf(header)
	if wanted.uid >= 0 {
		if err := unix.Fchownat(at.directory, at.name, wanted.uid, wanted.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return x.fail(at, err)
		}
	}
	return x.check(at, setTime(at, wanted))
}

// makeHardLink makes another name of what the archive has, or the folder had, under the first one.
func (x *extractor) makeHardLink(at spot, header *tar.Header) error {
	first, err := entryName(header.Linkname)
	if err != nil {
		return err
	}
	if first == at.entry {
		return nil
	}
	entered, err := x.enter(path.Dir(first))
	if err != nil {
		return err
	}
	from, err := unix.FcntlInt(uintptr(entered), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return x.fail(at, err)
	}
	defer unix.Close(from)
	var stat unix.Stat_t
	err = unix.Fstatat(from, path.Base(first), &stat, unix.AT_SYMLINK_NOFOLLOW)
	if kind := stat.Mode & unix.S_IFMT; err != nil || (kind != unix.S_IFREG && kind != unix.S_IFLNK) {
		return invalid(at.entry, "is another name of a file that is not there")
	}
	if at.directory, err = x.enter(path.Dir(at.entry)); err != nil {
		return err
	}
	if err := x.remove(at); err != nil {
		return x.fail(at, err)
	}
	return x.check(at, unix.Linkat(from, path.Base(first), at.directory, at.name, 0))
}
