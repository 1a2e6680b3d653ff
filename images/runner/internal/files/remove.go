package files

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// RemoveRequest asks for the removal of whatever is at a path.
type RemoveRequest struct {
	Target
	Recursive bool `json:"recursive,omitempty"`
}

// Remove removes a file, a link itself, or with Recursive a directory. What is not there is removed already; it returns
// whether there was anything.
func (s *Service) Remove(request RemoveRequest) (existed bool, err error) {
	err = s.at(request.Target, func(where place) error {
		if where.name == "." {
			return fault.OnPath(where.path, unix.EBUSY)
		}
		var removeErr error
		existed, removeErr = newRemover().removeAt(where.directory, where.name, request.Recursive)
		if removeErr != nil {
			return fault.OnPath(where.path, removeErr)
		}
		return nil
	})
	if own, ok := err.(*fault.Error); ok && own.Errno == "ENOENT" {
		return false, nil
	}
	return existed, err
}

const (
	// removeLevels is how deep directories are entered; what is deeper is moved up. So neither descriptors nor memory
	// run out, however deep a tree is.
	removeLevels = 64
	// removePasses and removeTime end a race with processes that make files as fast as they are removed.
	removePasses = 100
	removeTime   = 5 * time.Minute
)

// remover removes trees of any depth and width, and never follows a link.
type remover struct {
	// lenient leaves what cannot be removed, and then ends with EBUSY, instead of ending there.
	lenient  bool
	deadline time.Time
	movedUp  int
}

func newRemover() *remover { return &remover{deadline: time.Now().Add(removeTime)} }

// removeAt removes what has a name in a directory.
func (r *remover) removeAt(directory int, name string, recursive bool) (existed bool, err error) {
	err = unix.Unlinkat(directory, name, 0)
	switch {
	case err == unix.ENOENT:
		return false, nil
	case !mayBeDirectory(err):
		return true, err
	case recursive:
		return true, r.directory(directory, name, -1, 0, err)
	}
	return true, removeDirectory(directory, name)
}

// mayBeDirectory reads the error of an unlink. EACCES says that the parent may not be written to, which says nothing of
// what is inside.
func mayBeDirectory(err error) bool {
	return err == unix.EISDIR || err == unix.EPERM || err == unix.EACCES
}

func removeDirectory(directory int, name string) error {
	if err := unix.Unlinkat(directory, name, unix.AT_REMOVEDIR); err != unix.ENOENT {
		return err
	}
	return nil
}

// directory removes a directory; unlinked is the error for what turns out to be none.
func (r *remover) directory(parent int, name string, top, level int, unlinked error) error {
	if err := r.empty(parent, name, top, level); err == unix.ENOTDIR {
		return unlinked
	} else if err != nil {
		return err
	}
	return removeDirectory(parent, name)
}

// empty removes what is in a directory; top is the open directory that deep ones are moved up to.
func (r *remover) empty(parent int, name string, top, level int) error {
	directory, err := openOwn(parent, name)
	if err != nil {
		return err
	}
	defer unix.Close(directory)
	if level == 0 {
		top = directory
	}
	for passes := 0; passes < removePasses; { // entries may be added while they are removed
		movedUp := r.movedUp
		removed, left, err := r.pass(directory, top, level)
		switch {
		case err != nil:
			return err
		case removed == 0 && left:
			return unix.EBUSY
		case removed == 0:
			return nil
		case r.movedUp == movedUp:
			passes++
		}
		if _, err := unix.Seek(directory, 0, 0); err != nil {
			return err
		}
	}
	return unix.ENOTEMPTY
}

// pass reads a directory from where it stands to its end and removes what it finds, a few names at a time.
func (r *remover) pass(directory, top, level int) (removed int, left bool, err error) {
	buffer := make([]byte, 4<<10)
	for {
		n, err := unix.ReadDirent(directory, buffer)
		if err != nil || n <= 0 {
			return removed, left, err
		}
		_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			err := r.entry(directory, name, top, level)
			if err == unix.EACCES && unix.Fchmod(directory, 0o700) == nil {
				// As openOwn, for the right to write.
				err = r.entry(directory, name, top, level)
			}
			switch {
			case err == nil:
				removed++
			case r.lenient && cannotGo(err):
				left = true
			default:
				return removed, left, err
			}
		}
		if time.Now().After(r.deadline) {
			return removed, left, unix.ENOTEMPTY
		}
	}
}

// entry removes one name in a directory at a level.
func (r *remover) entry(directory int, name string, top, level int) error {
	err := unix.Unlinkat(directory, name, 0)
	switch {
	case err == unix.ENOENT:
		return nil
	case !mayBeDirectory(err):
		return err
	case level+1 >= removeLevels && unix.Renameat(directory, name, top, randomName(".episode-remove-")) == nil:
		r.movedUp++
		return nil
	}
	return r.directory(directory, name, top, level+1, err)
}

// openOwn opens a directory even where its owner has taken the right to read it: whoever owns it gives that back to
// itself.
func openOwn(parent int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	directory, err := unix.Openat(parent, name, flags, 0)
	if err == unix.EACCES {
		_ = unix.Fchmodat(parent, name, 0o700, 0)
		directory, err = unix.Openat(parent, name, flags, 0)
	}
	return directory, err
}

// cannotGo is the error for a mount point, and for what is in a directory that may not be written to.
func cannotGo(err error) bool {
	return err == unix.EBUSY || err == unix.EACCES || err == unix.EPERM || err == unix.EROFS
}

// clear removes what is at a place. For a directory that cannot go it is enough that it is empty; it returns whether that
// is so.
func (r *remover) clear(where place) (emptied bool, err error) {
	if where.name == "." {
		return false, unix.EBUSY
	}
	_, err = r.removeAt(where.directory, where.name, true)
	if !cannotGo(err) {
		return false, err
	}
	directory, openErr := unix.Openat(where.directory, where.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if openErr != nil {
		return false, err
	}
	defer unix.Close(directory)
	if isEmpty(directory) {
		return true, nil
	}
	return false, err
}

// isEmpty tells whether an open directory that nobody has read has no entries.
func isEmpty(directory int) bool {
	buffer := make([]byte, 4<<10)
	for {
		n, err := unix.ReadDirent(directory, buffer)
		if err != nil || n <= 0 {
			return err == nil
		}
		if _, _, names := unix.ParseDirent(buffer[:n], -1, nil); len(names) > 0 {
			return false
		}
	}
}

func randomName(prefix string) string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return prefix + hex.EncodeToString(random[:])
}
