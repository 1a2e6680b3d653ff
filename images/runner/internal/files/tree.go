package files

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

func identity(stat *unix.Stat_t) string {
	return fmt.Sprintf("%x:%x:%x:%x", stat.Dev, stat.Ino, stat.Mtim.Nano(), stat.Size)
}

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
		existed, removeErr = removeAt(where.directory, where.name, request.Recursive)
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

// removeAt never follows a link: directories are entered by O_NOFOLLOW.
func removeAt(directory int, name string, recursive bool) (existed bool, err error) {
	err = unix.Unlinkat(directory, name, 0)
	switch err {
	case nil:
		return true, nil
	case unix.ENOENT:
		return false, nil
	case unix.EISDIR, unix.EPERM, unix.EACCES: // EACCES: the parent may not be written to, which says nothing of what is inside
	default:
		return true, err
	}
	if recursive {
		if emptyErr := emptyDirectory(directory, name); emptyErr != nil {
			if emptyErr == unix.ENOTDIR {
				return true, err
			}
			return true, emptyErr
		}
	}
	err = unix.Unlinkat(directory, name, unix.AT_REMOVEDIR)
	if err == unix.ENOENT {
		return true, nil
	}
	return true, err
}

// emptyDirectory keeps one descriptor per level, so that a path too long for one system call is no obstacle.
func emptyDirectory(parent int, name string) error {
	directory, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.EACCES {
		// Its owner may have taken the right to read it; root without CAP_DAC_OVERRIDE gives it back to itself.
		_ = unix.Fchmodat(parent, name, 0o700, 0)
		directory, err = unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(directory)
	for range 100 { // entries may be added while they are removed
		names, err := entryNames(directory)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return nil
		}
		for _, entry := range names {
			if _, err := removeAt(directory, entry, true); err != nil {
				return err
			}
		}
		if _, err := unix.Seek(directory, 0, 0); err != nil {
			return err
		}
	}
	return unix.ENOTEMPTY
}

// MakeRequest asks for a directory.
type MakeRequest struct {
	Target
	Mode    uint32 `json:"mode"`
	Owner   string `json:"owner,omitempty"` // user, or user:group
	Parents bool   `json:"parents,omitempty"`
	// Fresh removes whatever is at the path first, and never follows a link.
	Fresh bool `json:"fresh,omitempty"`
	// ReplaceParents also replaces parents that are links or files by directories. Only with Fresh.
	ReplaceParents bool `json:"replaceParents,omitempty"`
}

// MakeDirectory makes a directory; one that exists is fine.
func (s *Service) MakeDirectory(request MakeRequest) error {
	uid, gid, err := owner(request.Owner)
	if err != nil {
		return err
	}
	request.RefuseLinks = request.RefuseLinks || request.Fresh
	path, err := request.absolute(s.WorkingDir)
	if err != nil {
		return err
	}
	return asUser(request.User, func() error {
		if request.Parents || request.Fresh {
			if err := makeParents(path, request.RefuseLinks, request.Fresh && request.ReplaceParents); err != nil {
				return err
			}
		}
		where, err := locate(path, request.RefuseLinks)
		if err != nil {
			return err
		}
		defer where.close()
		return s.makeAt(where, request, uid, gid)
	})
}

func (s *Service) makeAt(where place, request MakeRequest, uid, gid int) error {
	var kept error
	if request.Fresh {
		if where.name == "." {
			return fault.OnPath(where.path, unix.EBUSY)
		}
		// A mount point cannot be removed, and who may not write to the parent cannot remove any directory in it. Then it is
		// enough that it is empty by now.
		if _, err := removeAt(where.directory, where.name, true); err == unix.EBUSY || err == unix.EACCES {
			kept = err
		} else if err != nil {
			return fault.OnPath(where.path, err)
		}
	}
	err := unix.Mkdirat(where.directory, where.name, request.Mode&0o7777)
	existed := err == unix.EEXIST
	if err != nil && !existed {
		return fault.OnPath(where.path, err)
	}
	directory, err := openDirectory(where, request.RefuseLinks)
	if err != nil {
		return err
	}
	defer unix.Close(directory)
	if existed && !request.Fresh {
		return nil
	}
	if kept != nil {
		if names, err := entryNames(directory); err != nil || len(names) > 0 {
			return fault.OnPath(where.path, kept)
		}
	}
	if uid >= 0 {
		if err := unix.Fchown(directory, uid, gid); err != nil {
			return fault.OnPath(where.path, err)
		}
	}
	// Not subject to the umask, unlike the mode given to mkdir.
	if err := unix.Fchmod(directory, request.Mode&0o7777); err != nil && kept == nil {
		return fault.OnPath(where.path, err)
	}
	return nil
}

// makeParents makes the missing directories above a path.
func makeParents(path string, refuseLinks, replace bool) error {
	if !refuseLinks {
		return makeFollowing(filepath.Dir(path))
	}
	directory, err := unix.Open("/", directoryFlags, 0)
	if err != nil {
		return fault.OnPath(path, err)
	}
	defer func() { unix.Close(directory) }()
	for _, part := range strings.Split(strings.Trim(filepath.Dir(path), "/"), "/") {
		if part == "" {
			continue
		}
		next, err := unix.Openat(directory, part, directoryFlags|unix.O_NOFOLLOW, 0)
		if err == unix.ENOTDIR || err == unix.ELOOP {
			if !replace {
				if isLink(directory, part) {
					err = unix.ELOOP
				}
				return fault.OnPath(path, err)
			}
			if err := unix.Unlinkat(directory, part, 0); err != nil {
				return fault.OnPath(path, err)
			}
			err = unix.ENOENT
		}
		if err == unix.ENOENT {
			if err := unix.Mkdirat(directory, part, 0o755); err != nil && err != unix.EEXIST {
				return fault.OnPath(path, err)
			}
			next, err = unix.Openat(directory, part, directoryFlags|unix.O_NOFOLLOW, 0)
		}
		if err != nil {
			return fault.OnPath(path, err)
		}
		unix.Close(directory)
		directory = next
	}
	return nil
}

func makeFollowing(path string) error {
	err := unix.Mkdir(path, 0o755)
	if err == unix.ENOENT && path != "/" {
		if err := makeFollowing(filepath.Dir(path)); err != nil {
			return err
		}
		err = unix.Mkdir(path, 0o755)
	}
	if err != nil && err != unix.EEXIST && err != unix.EISDIR {
		return fault.OnPath(path, err)
	}
	return nil
}
