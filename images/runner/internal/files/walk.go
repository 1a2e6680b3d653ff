package files

import (
	"errors"
	"sort"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

const (
	// walkEntries bounds how many files and directories one walk meets.
	walkEntries = 1_000_000
	// walkLevels bounds how deep it goes; each level holds a descriptor.
	walkLevels = 1000
	// walkNames bounds the names of the directories that it is in at a time. They are held to be sorted.
	walkNames = 200_000
)

// errStopped ends what nobody wants any more.
var errStopped = errors.New("stopped")

// found is what a walk is at.
type found struct {
	directory int    // open, holds it
	name      string // in that directory
	path      string // absolute
	stat      unix.Stat_t
}

func (f *found) kind() uint32 { return f.stat.Mode & unix.S_IFMT }

// walker visits files, directories and links in the order of their names, each directory before what is in it. It never
// follows a link, and leaves out pipes, sockets and devices. What is gone when the walk comes to it was not there.
type walker struct {
	visit      func(*found) error
	unreadable func(path string, err error)
	stopped    *atomic.Bool
	entries    int
	names      int
}

// walk starts at what has a name in an open directory.
func (w *walker) walk(directory int, name, path string, level int) error {
	if w.stopped.Load() {
		return errStopped
	}
	if w.entries++; w.entries > walkEntries {
		return fault.New(fault.ArchiveTooLarge, "more than %d files and directories", walkEntries)
	}
	at := found{directory: directory, name: name, path: path}
	if err := unix.Fstatat(directory, name, &at.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.failed(path, err)
		return nil
	}
	switch at.kind() {
	case unix.S_IFREG, unix.S_IFLNK:
		return w.visit(&at)
	case unix.S_IFDIR:
		if err := w.visit(&at); err != nil {
			return err
		}
		return w.directory(&at, level)
	}
	return nil
}

func (w *walker) failed(path string, err error) {
	if err != unix.ENOENT {
		w.unreadable(path, err)
	}
}

func (w *walker) directory(at *found, level int) error {
	if level >= walkLevels {
		return fault.New(fault.ArchiveTooLarge, "deeper than %d directories", walkLevels)
	}
	directory, err := unix.Openat(at.directory, at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		w.failed(at.path, err)
		return nil
	}
	defer unix.Close(directory)
	names, err := w.sortedNames(directory, at.path)
	if err != nil {
		return err
	}
	w.names += len(names)
	defer func() { w.names -= len(names) }()
	above := at.path
	if above == "/" {
		above = ""
	}
	for _, name := range names {
		if err := w.walk(directory, name, above+"/"+name, level+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) sortedNames(directory int, path string) ([]string, error) {
	var names []string
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(directory, buffer)
		if err != nil {
			w.failed(path, err)
		}
		if err != nil || n <= 0 {
			sort.Strings(names)
			return names, nil
		}
		if _, _, names = unix.ParseDirent(buffer[:n], -1, names); w.names+len(names) > walkNames {
			return nil, fault.New(fault.ArchiveTooLarge, "directories of more than %d entries", walkNames)
		}
	}
}
