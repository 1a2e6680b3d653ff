// Package files reads and writes files without a shell, for a user of the image's and, where asked, without ever
// following a symbolic link.
package files

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/proc"
)

// Target names a file.
type Target struct {
	Path string `json:"path"`
	Cwd  string `json:"cwd,omitempty"`  // where a relative path starts
	User string `json:"user,omitempty"` // whose rights hold; root's, or the runner's own, when empty
	// RefuseLinks fails with ELOOP where any part of the path is a symbolic link.
	RefuseLinks bool `json:"refuseLinks,omitempty"`
}

func (t Target) absolute(workingDir string) (string, error) {
	if t.Path == "" || strings.ContainsRune(t.Path+t.Cwd, 0) {
		return "", &fault.Error{Reason: fault.FileError, Errno: "EINVAL", Path: t.Path, Message: "empty path or zero byte in it"}
	}
	path := t.Path
	if !filepath.IsAbs(path) && t.Cwd != "" {
		path = t.Cwd + "/" + path
	}
	if !filepath.IsAbs(path) {
		path = workingDir + "/" + path
	}
	if t.RefuseLinks {
		path = filepath.Clean(path)
	}
	return path, nil
}

// place is a directory that is open and a name in it: what happens to the path meanwhile does not matter any more.
type place struct {
	directory int
	name      string
	path      string
}

func (p place) close() { unix.Close(p.directory) }

const directoryFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// locate opens the directory of a path.
func locate(path string, refuseLinks bool) (place, error) {
	parent, name := filepath.Split(strings.TrimRight(path, "/"))
	if name == "" {
		parent, name = "/", "."
	}
	if name == ".." {
		parent, name = parent+name, "."
	}
	if !refuseLinks {
		directory, err := unix.Open(parent, directoryFlags, 0)
		if err != nil {
			return place{}, fault.OnPath(path, err)
		}
		return place{directory: directory, name: name, path: path}, nil
	}
	directory, err := unix.Open("/", directoryFlags, 0)
	if err != nil {
		return place{}, fault.OnPath(path, err)
	}
	for _, part := range strings.Split(strings.Trim(parent, "/"), "/") {
		if part == "" {
			continue
		}
		next, err := unix.Openat(directory, part, directoryFlags|unix.O_NOFOLLOW, 0)
		if err != nil {
			if isLink(directory, part) {
				err = unix.ELOOP
			}
			unix.Close(directory)
			return place{}, fault.OnPath(path, err)
		}
		unix.Close(directory)
		directory = next
	}
	return place{directory: directory, name: name, path: path}, nil
}

func isLink(directory int, name string) bool {
	var stat unix.Stat_t
	err := unix.Fstatat(directory, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK
}

// Service runs file operations.
type Service struct {
	WorkingDir string
	uploads    uploads
	packs      packs
}

// NewService takes relative paths from workingDir.
func NewService(workingDir string) *Service {
	return &Service{
		WorkingDir: workingDir, uploads: uploads{open: map[string]*upload{}}, packs: packs{open: map[string]*pack{}, idle: packIdle},
	}
}

// at runs action on a target's place with the rights of its user.
func (s *Service) at(target Target, action func(place) error) error {
	path, err := target.absolute(s.WorkingDir)
	if err != nil {
		return err
	}
	return asUser(target.User, func() error {
		where, err := locate(path, target.RefuseLinks)
		if err != nil {
			return err
		}
		defer where.close()
		return action(where)
	})
}

// slots bounds how many threads wait for disks at a time: see server.keepThreads.
var slots = make(chan struct{}, 8)

// asUser runs action on a thread whose file system identity is the user's. The kernel takes the capabilities that
// override permissions from such a thread by itself.
func asUser(name string, action func() error) error {
	user, err := proc.LookUpUser(name)
	if err != nil {
		return err
	}
	slots <- struct{}{}
	defer func() { <-slots }()
	if user.Credential == nil {
		return action()
	}
	own, err := ownIdentity()
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := become(*user.Credential)
		if err == nil {
			err = action()
		}
		// A thread that cannot get back ends with this goroutine, for it stays locked to it.
		if become(own) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

func ownIdentity() (syscall.Credential, error) {
	groups, err := unix.Getgroups()
	own := syscall.Credential{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid()), Groups: make([]uint32, len(groups))}
	for index, group := range groups {
		own.Groups[index] = uint32(group)
	}
	return own, err
}

// become changes this thread's identity towards file systems.
func become(identity syscall.Credential) error {
	if err := setThreadGroups(identity.Groups); err != nil {
		return fault.New(fault.InvalidRequest, "cannot act for another user: %v (the container needs CAP_SETGID)", err)
	}
	_ = unix.Setfsgid(int(identity.Gid))
	_ = unix.Setfsuid(int(identity.Uid))
	// Both answer the earlier id, so asking again with an impossible one is how to learn whether they worked.
	uid, _ := unix.SetfsuidRetUid(-1)
	gid, _ := unix.SetfsgidRetGid(-1)
	if uid != int(identity.Uid) || gid != int(identity.Gid) {
		return fault.New(fault.InvalidRequest, "cannot act for another user: the container needs CAP_SETUID and CAP_SETGID")
	}
	// A change of identity resets this to the system's setting for set-uid programs.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
