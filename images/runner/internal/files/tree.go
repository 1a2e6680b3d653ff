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
	mode := request.Mode & 0o7777
	var existed, emptied bool
	var err error
	if request.Fresh {
		emptied, err = makeFresh(where, mode)
	} else {
		err = unix.Mkdirat(where.directory, where.name, mode)
		existed = err == unix.EEXIST
	}
	if err != nil && !existed {
		return fault.OnPath(where.path, err)
	}
	directory, err := openDirectory(where, request.RefuseLinks)
	if err != nil {
		return err
	}
	defer unix.Close(directory)
	if existed {
		return nil
	}
	if request.Fresh && !isEmpty(directory) {
		return fault.OnPath(where.path, unix.ENOTEMPTY)
	}
	if uid >= 0 {
		if err := unix.Fchown(directory, uid, gid); err != nil {
			return fault.OnPath(where.path, err)
		}
	}
	// Not subject to the umask, unlike the mode given to mkdir. A directory that was only emptied may be another user's.
	if err := unix.Fchmod(directory, mode); err != nil && !emptied {
		return fault.OnPath(where.path, err)
	}
	return nil
}

// freshAttempts is how often a fresh directory is tried to be made where something makes the path anew in between.
const freshAttempts = 20

// makeFresh makes a directory in the place of whatever is there, or empties the one that is there and cannot be removed.
func makeFresh(where place, mode uint32) (emptied bool, err error) {
	for range freshAttempts {
		emptied, err = newRemover().clear(where)
		if err == nil && !emptied {
			err = unix.Mkdirat(where.directory, where.name, mode)
		}
		switch err {
		case unix.EEXIST, unix.ENOTEMPTY, unix.EISDIR: // it was made anew meanwhile
		default:
			return emptied, err
		}
	}
	return emptied, err
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
