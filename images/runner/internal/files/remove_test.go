package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

func TestRemoveNeverFollows(t *testing.T) {
	s := newSandbox(t)
	outside := t.TempDir()
	s.must(os.WriteFile(outside+"/precious", []byte("x"), 0o600))
	s.must(os.MkdirAll(s.root+"/tree/deep/deeper", 0o755))
	s.put("tree/deep/file", "x")
	s.must(os.Symlink(outside, s.root+"/tree/deep/escape"))
	s.must(os.Chmod(s.root+"/tree/deep/deeper", 0))
	_, err := s.service.Remove(RemoveRequest{Target: Target{Path: "tree"}})
	s.wantErrno(err, "ENOTEMPTY")
	for _, want := range []bool{true, false} {
		existed, err := s.service.Remove(RemoveRequest{Target: Target{Path: "tree"}, Recursive: true})
		if existed != want || err != nil {
			t.Errorf("%v %v", existed, err)
		}
	}
	s.must(os.Symlink(outside, s.root+"/link"))
	if existed, err := s.service.Remove(RemoveRequest{Target: Target{Path: "link"}, Recursive: true}); !existed || err != nil {
		t.Errorf("%v %v", existed, err)
	}
	if _, err := os.Stat(outside + "/precious"); err != nil {
		t.Error("followed a link")
	}
	if existed, err := s.service.Remove(RemoveRequest{Target: Target{Path: "no/such"}}); existed || err != nil {
		t.Errorf("%v %v", existed, err)
	}
	_, err = s.service.Remove(RemoveRequest{Target: Target{Path: "/"}, Recursive: true})
	s.wantErrno(err, "EBUSY")
}

func TestFreshDirectory(t *testing.T) {
	s := newSandbox(t)
	outside := t.TempDir()
	s.must(os.WriteFile(outside+"/precious", []byte("x"), 0o600))
	fresh := func(path string, replace bool) error {
		return s.service.MakeDirectory(MakeRequest{Target: Target{Path: path}, Mode: 0o700, Fresh: true, ReplaceParents: replace})
	}
	prepare := map[string]func(path string) error{
		"nothing":   func(string) error { return nil },
		"file":      func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"link":      func(path string) error { return os.Symlink(outside, path) },
		"dangling":  func(path string) error { return os.Symlink("/no/such", path) },
		"directory": func(path string) error { return os.MkdirAll(path+"/a/b", 0o777) },
		"trap": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o777), os.Symlink(outside, path+"/out"))
		},
		"pipe": func(path string) error { return unix.Mkfifo(path, 0o644) },
	}
	for name, make := range prepare {
		s.must(make(s.root + "/" + name))
		s.must(fresh(name, false))
		info, err := os.Lstat(s.root + "/" + name)
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", name, info, err)
		}
		if entries, _ := os.ReadDir(s.root + "/" + name); len(entries) != 0 {
			t.Errorf("%s is not empty", name)
		}
	}
	s.must(os.Symlink(outside, s.root+"/logs"))
	s.wantErrno(fresh("logs/verifier", false), "ELOOP")
	s.must(fresh("logs/verifier", true))
	s.put("plain", "x")
	s.wantErrno(fresh("plain/verifier", false), "ENOTDIR")
	s.must(fresh("plain/verifier", true))
	s.must(fresh("new/parents/too", false))
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("followed a link: %v", entries)
	}
	// A mount point cannot be removed; it is emptied.
	s.must(os.Mkdir(s.root+"/mount", 0o755))
	s.must(unix.Mount("tmpfs", s.root+"/mount", "tmpfs", 0, ""))
	defer func() { _ = unix.Unmount(s.root+"/mount", 0) }()
	s.put("mount/file", "x")
	s.must(fresh("mount", false))
	if entries, _ := os.ReadDir(s.root + "/mount"); len(entries) != 0 {
		t.Error("the mount is not empty")
	}
}

// withDescriptors lets this process open only so many files more.
func (s sandbox) withDescriptors(more uint64, action func()) {
	s.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	s.must(err)
	var before unix.Rlimit
	s.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	s.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)) + more, Max: before.Max}))
	defer func() { s.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	action()
}

func TestTreesOfAnyShapeGo(t *testing.T) {
	shapes := map[string]func(s sandbox, path string){
		"long names":     func(s sandbox, path string) { s.deepen(path, strings.Repeat("d", 200), 100) },
		"deep":           func(s sandbox, path string) { s.deepen(path, "d", 1000) },
		"wide":           func(s sandbox, path string) { s.fill(path, 2000) },
		"newlines":       func(s sandbox, path string) { s.put(path+"/a\nb\n", "") },
		"not readable":   func(s sandbox, path string) { s.lock(path, 0) },
		"not writable":   func(s sandbox, path string) { s.lock(path, 0o555) },
		"not executable": func(s sandbox, path string) { s.lock(path, 0o666) },
	}
	for name, shape := range shapes {
		for _, user := range []string{"", "nobody"} {
			s := newSandbox(t)
			s.must(os.Mkdir(s.root+"/tree", 0o777))
			s.must(os.Chmod(s.root+"/tree", 0o777))
			s.must(asUser(user, func() error { shape(s, "tree"); return nil }))
			s.withDescriptors(100, func() {
				request := MakeRequest{Target: Target{Path: "tree", User: user}, Mode: 0o755, Fresh: true}
				if err := s.service.MakeDirectory(request); err != nil {
					t.Errorf("%s as %q: %v", name, user, err)
				}
			})
			if entries, err := os.ReadDir(s.root + "/tree"); len(entries) != 0 || err != nil {
				t.Errorf("%s as %q: %v %v", name, user, entries, err)
			}
		}
	}
}

func (s sandbox) fill(path string, files int) {
	s.Helper()
	for number := range files {
		s.must(unix.Mknod(fmt.Sprintf("%s/%s/%d", s.root, path, number), unix.S_IFREG|0o644, 0))
	}
}

// lock leaves directories with files that their owner may not use.
func (s sandbox) lock(path string, mode uint32) {
	s.Helper()
	inside := s.root + "/" + path + "/a/b"
	s.must(os.MkdirAll(inside, 0o755))
	s.must(unix.Mknod(inside+"/file", unix.S_IFREG|0o000, 0))
	s.must(unix.Chmod(inside, mode))
	s.must(unix.Chmod(s.root+"/"+path+"/a", mode))
}

// Something makes the path anew again and again, by links to where the runner must not go. It may win, but only by a
// typed error.
func TestARaceForAFreshDirectoryFollowsNoLink(t *testing.T) {
	s := newSandbox(t)
	outside := t.TempDir()
	s.must(os.WriteFile(outside+"/precious", []byte("x"), 0o600))
	s.must(os.Mkdir(s.root+"/logs", 0o755))
	var stop atomic.Bool
	moves := []func(){
		func() { _ = os.Symlink(outside, s.root+"/logs/verifier") },
		func() { _ = os.Mkdir(s.root+"/logs/verifier", 0o777) },
		func() { _ = os.WriteFile(s.root+"/logs/verifier/reward.txt", []byte("1"), 0o644) },
		func() { _ = os.Symlink(outside, s.root+"/logs/verifier/tests") },
		func() { _ = os.Rename(s.root+"/logs", s.root+"/away"); _ = os.Symlink(outside, s.root+"/logs") },
		func() { _ = os.Remove(s.root + "/logs"); _ = os.Rename(s.root+"/away", s.root+"/logs") },
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			for _, move := range moves {
				move()
			}
		}
	}()
	request := MakeRequest{Target: Target{Path: "logs/verifier"}, Mode: 0o711, Owner: "1234:1234", Fresh: true, ReplaceParents: true}
	for range 1000 {
		var typed *fault.Error
		if err := s.service.MakeDirectory(request); err != nil && (!errors.As(err, &typed) || typed.Errno == "") {
			t.Errorf("%v", err)
		}
	}
	stop.Store(true)
	<-ended
	// What the racer itself makes outside is root's.
	if content, err := os.ReadFile(outside + "/precious"); err != nil || string(content) != "x" {
		t.Errorf("followed a link: %q %v", content, err)
	}
	_ = filepath.WalkDir(outside, func(path string, _ os.DirEntry, _ error) error {
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) == nil && stat.Uid != 0 {
			t.Errorf("followed a link: %s", path)
		}
		return nil
	})
	s.must(s.service.MakeDirectory(request))
	if entries, err := os.ReadDir(s.root + "/logs/verifier"); len(entries) != 0 || err != nil {
		t.Errorf("%v %v", entries, err)
	}
}

func TestOldHandlesDoNotReachAFreshDirectory(t *testing.T) {
	s := newSandbox(t)
	s.must(os.MkdirAll(s.root+"/plain", 0o755))
	s.must(os.MkdirAll(s.root+"/mount", 0o755))
	s.must(unix.Mount("tmpfs", s.root+"/mount", "tmpfs", 0, ""))
	defer func() { _ = unix.Unmount(s.root+"/mount", 0) }()
	for _, path := range []string{"plain", "mount"} {
		s.put(path+"/reward.txt", "0")
		file, err := os.OpenFile(s.root+"/"+path+"/reward.txt", os.O_RDWR, 0)
		s.must(err)
		defer file.Close()
		directory, err := unix.Open(s.root+"/"+path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		s.must(err)
		defer unix.Close(directory)
		s.must(s.service.MakeDirectory(MakeRequest{Target: Target{Path: path}, Mode: 0o755, Fresh: true}))
		_, err = file.WriteString("1")
		s.must(err)
		if path == "plain" {
			_, err = unix.Openat(directory, "reward.txt", unix.O_CREAT|unix.O_WRONLY, 0o644)
			if err != unix.ENOENT {
				t.Errorf("a file in a removed directory: %v", err)
			}
		}
		if entries, err := os.ReadDir(s.root + "/" + path); len(entries) != 0 || err != nil {
			t.Errorf("%s: %v %v", path, entries, err)
		}
	}
}
