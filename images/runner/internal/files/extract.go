package files

import (
	"archive/tar"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// maxDirectoryBytes bounds the memory for the attributes of directories, which are set when all is unpacked.
const maxDirectoryBytes = 16 << 20

// extractor puts the entries of an archive under a folder.
type extractor struct {
	folder       int
	path         string
	uid, gid     int // of all entries; -1: the archive's
	user         int // that the runner is
	limitBytes   int64
	limitEntries int64
	bytes        int64
	entries      int64
	buffer       []byte

	directories    map[string]attributes
	directoryBytes int
	open           string // the directory that is open as parent
	parent         int
}

func newExtractor(folder int, path string, limitBytes, limitEntries int64) *extractor {
	return &extractor{
		folder: folder, path: path, uid: -1, gid: -1, user: unix.Geteuid(), limitBytes: limitBytes, limitEntries: limitEntries,
		buffer: make([]byte, 256<<10), directories: map[string]attributes{}, parent: -1,
	}
}

func (x *extractor) close() {
	x.leave()
	unix.Close(x.folder)
}

// leave closes the directory that the last entry went to.
func (x *extractor) leave() {
	if x.parent >= 0 && x.parent != x.folder {
		unix.Close(x.parent)
	}
	x.parent, x.open = -1, ""
}

// extract puts one entry in its place, instead of whatever is there.
func (x *extractor) extract(header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if x.entries++; x.entries > x.limitEntries {
		return fault.New(fault.ArchiveTooLarge, "more than %d entries", x.limitEntries)
	}
	name, err := entryName(header.Name)
	if err != nil {
		return err
	}
	if name == "" {
		if header.Typeflag != tar.TypeDir {
			return invalid(header.Name, "names the folder itself")
		}
		return nil // the folder is the caller's, and stays as it is
	}
	if header.Uid < 0 || header.Uid >= math.MaxUint32 || header.Gid < 0 || header.Gid >= math.MaxUint32 {
		return invalid(name, "has no possible owner")
	}
	directory, err := x.enter(path.Dir(name))
	if err != nil {
		return err
	}
	at := spot{directory: directory, name: path.Base(name), entry: name}
	switch header.Typeflag {
	case tar.TypeDir:
		return x.makeDirectory(at, header)
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.makeFile(at, header, content)
	case tar.TypeSymlink:
		return x.makeLink(at, header)
	case tar.TypeLink:
		return x.makeHardLink(at, header)
	}
	return invalid(name, "is a pipe, device or something else than a file, directory or link")
}

// entryName cleans an entry's name, "" for the folder itself.
func entryName(name string) (string, error) {
	if strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) || slices.Contains(strings.Split(name, "/"), "..") {
		return "", invalid(name, "leads out of the folder")
	}
	if name = path.Clean(name); name == "." {
		return "", nil
	}
	return name, nil
}

func invalid(name, what string) error {
	return &fault.Error{Reason: fault.InvalidArchive, Path: name, Message: "the archive's entry " + what}
}

// spot is where an entry goes: an open directory and a name in it.
type spot struct {
	directory int
	name      string
	entry     string // the whole name
}

func (x *extractor) fail(at spot, err error) error {
	return fault.OnPath(path.Join(x.path, at.entry), err)
}

// enter opens a directory of the archive's, and makes what is missing on the way.
func (x *extractor) enter(name string) (int, error) {
	if x.parent >= 0 && x.open == name {
		return x.parent, nil
	}
	x.leave()
	directory := x.folder
	if name != "." {
		walked := ""
		for _, part := range strings.Split(name, "/") {
			walked = path.Join(walked, part)
			next, err := x.step(spot{directory: directory, name: part, entry: walked})
			if directory != x.folder {
				unix.Close(directory)
			}
			if err != nil {
				return -1, err
			}
			directory = next
		}
	}
	x.parent, x.open = directory, name
	return directory, nil
}

func (x *extractor) step(at spot) (int, error) {
	next, err := unix.Openat(at.directory, at.name, directoryFlags|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT {
		if err := unix.Mkdirat(at.directory, at.name, 0o755); err != nil && err != unix.EEXIST {
			return -1, x.fail(at, err)
		}
		if x.uid >= 0 {
			if err := unix.Fchownat(at.directory, at.name, x.uid, x.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return -1, x.fail(at, err)
			}
		}
		next, err = unix.Openat(at.directory, at.name, directoryFlags|unix.O_NOFOLLOW, 0)
	}
	switch err {
	case nil:
		return next, nil
	case unix.ENOTDIR, unix.ELOOP:
		return -1, invalid(at.entry, "is under a link or a file")
	}
	return -1, x.fail(at, err)
}
