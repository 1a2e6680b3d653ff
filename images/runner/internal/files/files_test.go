package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

func errnoOf(err error) string {
	var typed *fault.Error
	if errors.As(err, &typed) {
		if typed.Errno == "" {
			return typed.Reason
		}
		return typed.Errno
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

type sandbox struct {
	*testing.T
	service *Service
	root    string
}

func newSandbox(t *testing.T) sandbox {
	root := t.TempDir()
	// Other users must reach it.
	for path := root; path != "/tmp" && path != "/"; path = filepath.Dir(path) {
		_ = os.Chmod(path, 0o777)
	}
	return sandbox{T: t, service: NewService(root), root: root}
}

func (s sandbox) write(request WriteRequest, data string) (Written, error) {
	request.Sha256 = sum([]byte(data))
	return s.service.Write(request, []byte(data))
}

func (s sandbox) put(name, data string) {
	s.Helper()
	if err := os.WriteFile(s.root+"/"+name, []byte(data), 0o644); err != nil {
		s.Fatal(err)
	}
}

func (s sandbox) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s sandbox) want(name, data string) {
	s.Helper()
	got, err := os.ReadFile(s.root + "/" + name)
	if err != nil || string(got) != data {
		s.Errorf("%s: %q %v, wanted %q", name, got, err, data)
	}
}

func (s sandbox) wantErrno(err error, errno string) {
	s.Helper()
	if got := errnoOf(err); got != errno {
		s.Errorf("got %q (%v), wanted %q", got, err, errno)
	}
}

func (s sandbox) noLeftovers() {
	s.Helper()
	_ = filepath.WalkDir(s.root, func(path string, _ os.DirEntry, _ error) error {
		if strings.Contains(path, ".episode-upload-") {
			s.Errorf("left over: %s", path)
		}
		return nil
	})
}

func TestWriteAndRead(t *testing.T) {
	s := newSandbox(t)
	mode := uint32(0o750)
	written, err := s.write(WriteRequest{Target: Target{Path: "a/b/c.txt"}, Parents: true, Mode: &mode}, "hello")
	if err != nil || !written.Atomic || written.SizeBytes != 5 {
		t.Fatalf("%+v %v", written, err)
	}
	s.want("a/b/c.txt", "hello")
	info, err := s.service.Stat(StatRequest{Target: Target{Path: s.root + "/a/b/c.txt"}})
	if err != nil || info.Mode != 0o750 || info.SizeBytes != 5 || info.Type != "file" {
		t.Errorf("%+v %v", info, err)
	}
	// The mode of a file that is replaced stays.
	_, err = s.write(WriteRequest{Target: Target{Path: "c.txt", Cwd: s.root + "/a/b"}}, "")
	s.must(err)
	if info, _ = s.service.Stat(StatRequest{Target: Target{Path: "a/b/c.txt"}}); info.Mode != 0o750 || info.SizeBytes != 0 {
		t.Errorf("%+v", info)
	}
	s.put("d", "0123456789")
	for _, test := range []struct {
		offset int64
		length int
		want   string
		end    bool
	}{{0, 100, "0123456789", true}, {2, 3, "234", false}, {9, 1, "9", true}, {10, 5, "", true}, {99, 5, "", true}, {0, 0, "", false}} {
		result, data, err := s.service.Read(ReadRequest{Target: Target{Path: "d"}, OffsetBytes: test.offset, LengthBytes: test.length})
		if err != nil || string(data) != test.want || result.End != test.end || result.SizeBytes != 10 {
			t.Errorf("%+v: %q %+v %v", test, data, result, err)
		}
	}
	// A file of the kernel has size 0.
	if result, data, err := s.service.Read(ReadRequest{Target: Target{Path: "/proc/self/stat"}, LengthBytes: 1000}); err != nil || len(data) < 50 || !result.End {
		t.Errorf("%q %v", data, err)
	}
	s.noLeftovers()
}

func TestErrors(t *testing.T) {
	s := newSandbox(t)
	s.put("file", "x")
	s.must(os.Mkdir(s.root+"/directory", 0o755))
	s.must(unix.Mkfifo(s.root+"/pipe", 0o644))
	s.must(os.Symlink("loop", s.root+"/loop"))
	read := func(path string) error {
		_, _, err := s.service.Read(ReadRequest{Target: Target{Path: path}, LengthBytes: 10})
		return err
	}
	write := func(path string) error {
		_, err := s.write(WriteRequest{Target: Target{Path: path}}, "x")
		return err
	}
	s.wantErrno(read("missing"), "ENOENT")
	s.wantErrno(read("missing/deep"), "ENOENT")
	s.wantErrno(read("file/deep"), "ENOTDIR")
	s.wantErrno(read("directory"), "EISDIR")
	s.wantErrno(read("directory/"), "EISDIR")
	s.wantErrno(read("/"), "EISDIR")
	s.wantErrno(read("pipe"), "EINVAL")
	s.wantErrno(read("/dev/zero"), "EINVAL")
	s.wantErrno(read("loop"), "ELOOP")
	s.wantErrno(read(""), "EINVAL")
	s.wantErrno(read("a\x00b"), "EINVAL")
	s.wantErrno(write("directory"), "EISDIR")
	s.wantErrno(write("/"), "EISDIR")
	s.wantErrno(write("directory/.."), "EISDIR")
	s.wantErrno(write("missing/deep"), "ENOENT")
	s.wantErrno(write("pipe"), "EINVAL")
	s.wantErrno(write("loop"), "ELOOP")
	s.wantErrno(write(strings.Repeat("n", 300)), "ENAMETOOLONG")
	_, err := s.service.Write(WriteRequest{Target: Target{Path: "wrong"}, Sha256: sum([]byte("other"))}, []byte("x"))
	s.wantErrno(err, fault.UploadCheckFailure)
	if _, err := os.Stat(s.root + "/wrong"); !os.IsNotExist(err) {
		t.Error("a file that failed its check took its place")
	}
	_, _, err = s.service.List(ListRequest{Target: Target{Path: "file"}, LimitEntries: 10})
	s.wantErrno(err, "ENOTDIR")
	s.noLeftovers()
}

func TestUserRightsHold(t *testing.T) {
	s := newSandbox(t)
	s.put("secret", "root only")
	s.must(os.Chmod(s.root+"/secret", 0o600))
	s.must(os.Mkdir(s.root+"/locked", 0o755))
	_, _, err := s.service.Read(ReadRequest{Target: Target{Path: "secret", User: "nobody"}, LengthBytes: 10})
	s.wantErrno(err, "EACCES")
	_, err = s.write(WriteRequest{Target: Target{Path: "locked/x", User: "nobody"}}, "x")
	s.wantErrno(err, "EACCES")
	_, err = s.service.Remove(RemoveRequest{Target: Target{Path: "locked", User: "1000:1000"}, Recursive: true})
	if _, statErr := os.Stat(s.root + "/locked"); err == nil && statErr != nil {
		// The root of the sandbox is open to all, so an empty directory may go; what is in it may not.
		s.must(os.Mkdir(s.root+"/locked", 0o755))
	}
	_, err = s.write(WriteRequest{Target: Target{Path: "mine", User: "1234:5678"}}, "x")
	s.must(err)
	info, _ := s.service.Stat(StatRequest{Target: Target{Path: "mine"}})
	if info.UID != 1234 || info.GID != 5678 {
		t.Errorf("%+v", info)
	}
	_, err = s.write(WriteRequest{Target: Target{Path: "given"}, Owner: "1234:5678"}, "x")
	s.must(err)
	if info, _ = s.service.Stat(StatRequest{Target: Target{Path: "given"}}); info.UID != 1234 {
		t.Errorf("%+v", info)
	}
	// Root replaces a user's file, and it stays the user's.
	_, err = s.write(WriteRequest{Target: Target{Path: "mine"}}, "changed")
	s.must(err)
	if info, _ = s.service.Stat(StatRequest{Target: Target{Path: "mine"}}); info.UID != 1234 {
		t.Errorf("%+v", info)
	}
	// The thread that acted for the user is gone: this one is root still.
	_, _, err = s.service.Read(ReadRequest{Target: Target{Path: "secret"}, LengthBytes: 10})
	s.must(err)
	var group sync.WaitGroup
	for index := range 40 {
		group.Add(1)
		go func() {
			defer group.Done()
			user, want := "", ""
			if index%2 == 0 {
				user, want = "nobody", "EACCES"
			}
			_, _, err := s.service.Read(ReadRequest{Target: Target{Path: "secret", User: user}, LengthBytes: 10})
			s.wantErrno(err, want)
		}()
	}
	group.Wait()
}

func TestLinksAreFollowedUnlessRefused(t *testing.T) {
	s := newSandbox(t)
	s.must(os.Mkdir(s.root+"/real", 0o755))
	s.put("real/file", "data")
	s.must(os.Symlink("real", s.root+"/dirlink"))
	s.must(os.Symlink("real/file", s.root+"/filelink"))
	s.must(os.Symlink("nowhere", s.root+"/dangling"))
	for _, path := range []string{"dirlink/file", "filelink"} {
		_, data, err := s.service.Read(ReadRequest{Target: Target{Path: path}, LengthBytes: 10})
		if err != nil || string(data) != "data" {
			t.Errorf("%s: %q %v", path, data, err)
		}
		_, _, err = s.service.Read(ReadRequest{Target: Target{Path: path, RefuseLinks: true}, LengthBytes: 10})
		s.wantErrno(err, "ELOOP")
		_, err = s.service.Stat(StatRequest{Target: Target{Path: path, RefuseLinks: true}})
		s.wantErrno(err, "ELOOP")
	}
	_, _, err := s.service.List(ListRequest{Target: Target{Path: "dirlink", RefuseLinks: true}, LimitEntries: 10})
	s.wantErrno(err, "ELOOP")
	info, err := s.service.Stat(StatRequest{Target: Target{Path: "filelink"}, OfLink: true})
	if err != nil || info.Type != "link" || info.LinkTarget != "real/file" {
		t.Errorf("%+v %v", info, err)
	}
	// Writing goes through a link, and the link stays.
	_, err = s.write(WriteRequest{Target: Target{Path: "filelink"}}, "new")
	s.must(err)
	s.want("real/file", "new")
	_, err = s.write(WriteRequest{Target: Target{Path: "dangling"}}, "made")
	s.must(err)
	s.want("nowhere", "made")
	// Refused, it replaces the link itself.
	_, err = s.write(WriteRequest{Target: Target{Path: "filelink", RefuseLinks: true}}, "own")
	s.must(err)
	s.want("real/file", "new")
	s.want("filelink", "own")
	_, err = s.write(WriteRequest{Target: Target{Path: "dirlink/x", RefuseLinks: true}}, "own")
	s.wantErrno(err, "ELOOP")
	s.noLeftovers()
}

func TestMakeDirectory(t *testing.T) {
	s := newSandbox(t)
	s.wantErrno(s.service.MakeDirectory(MakeRequest{Target: Target{Path: "a/b"}, Mode: 0o755}), "ENOENT")
	s.must(s.service.MakeDirectory(MakeRequest{Target: Target{Path: "a/b"}, Mode: 0o777, Parents: true, Owner: "1234"}))
	info, _ := s.service.Stat(StatRequest{Target: Target{Path: "a/b"}})
	if info.Mode != 0o777 || info.UID != 1234 {
		t.Errorf("%+v", info)
	}
	s.must(s.service.MakeDirectory(MakeRequest{Target: Target{Path: "a/b"}, Mode: 0o700}))
	s.put("file", "")
	s.wantErrno(s.service.MakeDirectory(MakeRequest{Target: Target{Path: "file"}, Mode: 0o755}), "ENOTDIR")
}

func TestUpload(t *testing.T) {
	s := newSandbox(t)
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	request := WriteRequest{Target: Target{Path: "big"}, Sha256: sum(data)}
	s.must(s.service.OpenUpload("u", "client", request))
	s.wantErrno(s.service.OpenUpload("u", "client", request), fault.InvalidRequest)
	const chunk = 77_777
	for round := range 2 { // in turns from the end, and everything twice
		for offset := len(data) / chunk * chunk; offset >= 0; offset -= chunk {
			if round == 0 && offset%2 == 0 {
				continue
			}
			s.must(s.service.WriteUpload("u", int64(offset), data[offset:min(offset+chunk, len(data))]))
		}
	}
	if _, err := os.Stat(s.root + "/big"); !os.IsNotExist(err) {
		t.Error("visible before its end")
	}
	written, err := s.service.CommitUpload("u")
	if err != nil || written.SizeBytes != int64(len(data)) || written.Sha256 != sum(data) {
		t.Errorf("%+v %v", written, err)
	}
	s.want("big", string(data))
	s.wantErrno(s.service.WriteUpload("u", 0, nil), fault.UploadNotFound)
	_, err = s.service.CommitUpload("u")
	s.wantErrno(err, fault.UploadNotFound)

	s.must(s.service.OpenUpload("lost", "older", request))
	s.must(s.service.OpenUpload("kept", "newer", request))
	s.service.AbortOthers("newer")
	s.wantErrno(s.service.WriteUpload("lost", 0, nil), fault.UploadNotFound)
	s.must(s.service.WriteUpload("kept", 0, nil))
	_, err = s.service.CommitUpload("kept")
	s.wantErrno(err, fault.UploadCheckFailure)
	s.service.AbortUpload("unknown")
	s.noLeftovers()
}

func TestNoSpace(t *testing.T) {
	s := newSandbox(t)
	s.must(os.Mkdir(s.root+"/small", 0o755))
	s.must(unix.Mount("tmpfs", s.root+"/small", "tmpfs", 0, "size=64k"))
	defer func() { _ = unix.Unmount(s.root+"/small", 0) }()
	_, err := s.write(WriteRequest{Target: Target{Path: "small/file"}}, strings.Repeat("x", 100<<10))
	s.wantErrno(err, "ENOSPC")
	s.noLeftovers()
	_, err = s.write(WriteRequest{Target: Target{Path: "small/file"}}, strings.Repeat("x", 10<<10))
	s.must(err)
}

func TestAFileThatIsAMountPointIsRewritten(t *testing.T) {
	s := newSandbox(t)
	s.put("source", "long old content")
	s.put("hosts", "")
	s.must(unix.Mount(s.root+"/source", s.root+"/hosts", "", unix.MS_BIND, ""))
	defer func() { _ = unix.Unmount(s.root+"/hosts", 0) }()
	written, err := s.write(WriteRequest{Target: Target{Path: "hosts"}}, "new")
	if err != nil || written.Atomic {
		t.Errorf("%+v %v", written, err)
	}
	s.want("source", "new")
	s.noLeftovers()
}

func TestListing(t *testing.T) {
	s := newSandbox(t)
	s.put("b", "12")
	s.put("a\xff", "")
	s.must(os.Symlink("b", s.root+"/c"))
	s.must(syscall.Mkdir(s.root+"/d", 0o755))
	result, names, err := s.service.List(ListRequest{Target: Target{Path: "."}, LimitEntries: 3})
	if err != nil || string(names) != "a\xff\x00b\x00c\x00" || result.OmittedEntries != 1 {
		t.Errorf("%q %+v %v", names, result, err)
	}
	if result.Entries[1].SizeBytes != 2 || result.Entries[2].Type != "link" {
		t.Errorf("%+v", result.Entries)
	}
}
