package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

const noLimit = 1 << 40

// pack reads a whole pack, every piece of it twice.
func (s sandbox) pack(limit int64, paths ...string) ([]byte, *Packed, error) {
	s.Helper()
	s.must(s.service.OpenPack("p", "client", PackRequest{Paths: paths, LimitBytes: limit}))
	defer s.service.ClosePack("p")
	var whole []byte
	for {
		offset := int64(len(whole))
		data, packed, err := s.service.ReadPack("p", offset)
		again, packedAgain, errAgain := s.service.ReadPack("p", offset)
		if !bytes.Equal(data, again) || packed != packedAgain || err != errAgain {
			s.Fatalf("a piece differs when it is read again: %v %v", err, errAgain)
		}
		whole = append(whole, data...)
		if packed != nil || err != nil {
			return whole, packed, err
		}
	}
}

type entryOf struct {
	header  *tar.Header
	content string
}

func (s sandbox) entries(archive []byte) (names []string, byName map[string]entryOf) {
	s.Helper()
	stream, err := gzip.NewReader(bytes.NewReader(archive))
	s.must(err)
	reader := tar.NewReader(stream)
	byName = map[string]entryOf{}
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return names, byName
		}
		s.must(err)
		content, err := io.ReadAll(reader)
		s.must(err)
		names = append(names, header.Name)
		byName[header.Name] = entryOf{header, string(content)}
	}
}

func randomBytes(length int) []byte {
	data := make([]byte, length)
	for index := range data {
		data[index] = byte(rand.Uint32())
	}
	return data
}

func TestPack(t *testing.T) {
	s := newSandbox(t)
	inside := strings.TrimPrefix(s.root, "/") + "/"
	big := randomBytes(3*packChunk + 17)
	s.must(os.MkdirAll(s.root+"/d/sub", 0o755))
	s.must(os.WriteFile(s.root+"/d/sub/big", big, 0o640))
	s.must(os.WriteFile(s.root+"/d/line\nbreak\xff", []byte("odd"), 0o4755))
	s.must(os.Chmod(s.root+"/d/line\nbreak\xff", 0o755|os.ModeSetuid))
	s.must(os.Link(s.root+"/d/sub/big", s.root+"/d/again"))
	s.must(os.Symlink("/etc/passwd", s.root+"/d/link"))
	s.must(unix.Mkfifo(s.root+"/d/pipe", 0o644))
	s.must(os.Chown(s.root+"/d/sub", 1234, 5678))
	modified := time.Unix(1_000_000_000, 123_456_789)
	s.must(os.Chtimes(s.root+"/d/sub", modified, modified))
	s.put("alone", "x")
	archive, packed, err := s.pack(noLimit, s.root+"/d", "alone")
	s.must(err)
	if packed.SizeBytes != int64(len(archive)) || packed.Sha256 != sum(archive) || len(packed.Missing) != 0 {
		t.Errorf("%+v for %d bytes", packed, len(archive))
	}
	names, byName := s.entries(archive)
	want := []string{"alone", "d/", "d/again", "d/line\nbreak\xff", "d/link", "d/sub/", "d/sub/big"}
	for index, name := range want {
		want[index] = inside + name
	}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("%q", names)
	}
	if byName[inside+"d/again"].content != string(big) || byName[inside+"d/sub/big"].content != string(big) {
		t.Error("content changed")
	}
	if header := byName[inside+"d/line\nbreak\xff"].header; header.Mode != 0o4755 {
		t.Errorf("%o", header.Mode)
	}
	if header := byName[inside+"d/link"].header; header.Typeflag != tar.TypeSymlink || header.Linkname != "/etc/passwd" {
		t.Errorf("%+v", header)
	}
	if header := byName[inside+"d/sub/"].header; header.Uid != 1234 || header.Gid != 5678 || !header.ModTime.Equal(modified) {
		t.Errorf("%+v", header)
	}
	again, _, err := s.pack(noLimit, "alone", s.root+"/d/")
	if err != nil || !bytes.Equal(archive, again) {
		t.Errorf("not the same again: %v", err)
	}
}

func TestWhatIsNotInAPack(t *testing.T) {
	s := newSandbox(t)
	s.must(os.MkdirAll(s.root+"/real/deep", 0o755))
	s.put("real/deep/file", "12345678")
	s.must(os.Symlink("real", s.root+"/link"))
	s.must(unix.Mkfifo(s.root+"/pipe", 0o644))
	s.must(os.MkdirAll(s.root+"/holds/x", 0o755))
	s.must(unix.Mkfifo(s.root+"/holds/pipe", 0o644))
	s.must(os.WriteFile(s.root+"/huge", nil, 0o644))
	s.must(os.Truncate(s.root+"/huge", 1<<40))
	archive, packed, err := s.pack(10, "absent", "real/deep/file/below", "link/deep", "link", "pipe", "huge", "holds", "real", "real/deep", "real/deep/file")
	s.must(err)
	want := map[string]string{
		"absent":               "no such file or directory",
		"real/deep/file/below": "not a directory",
		"link/deep":            "a symbolic link is on the way to it",
		"pipe":                 "it is a pipe, socket or device",
		"huge":                 "its 1099511627776 bytes would pass the limit of 10 bytes",
	}
	if !reflect.DeepEqual(packed.Missing, want) {
		t.Errorf("%q", packed.Missing)
	}
	if !reflect.DeepEqual(packed.TooLarge, []string{"huge"}) {
		t.Errorf("%q", packed.TooLarge)
	}
	inside := strings.TrimPrefix(s.root, "/") + "/"
	names, _ := s.entries(archive)
	wantNames := []string{"holds/", "holds/x/", "link", "real/", "real/deep/", "real/deep/file"}
	for index, name := range wantNames {
		wantNames[index] = inside + name
	}
	if !reflect.DeepEqual(names, wantNames) {
		t.Errorf("%q", names)
	}
	// The limit is for all of them together.
	if _, packed, err = s.pack(15, "real", "huge", "real/deep/file", "link"); err != nil || len(packed.Missing) != 1 {
		t.Errorf("%+v %v", packed, err)
	}
	s.put("second", "12345678")
	if _, packed, err = s.pack(15, "real", "second"); err != nil || !strings.Contains(packed.Missing["second"], "limit of 15") {
		t.Errorf("%+v %v", packed, err)
	}
	s.wantErrno(s.service.OpenPack("p", "c", PackRequest{Paths: []string{"a\x00b"}}), "EINVAL")
	s.wantErrno(s.service.OpenPack("p", "c", PackRequest{Paths: make([]string, maxPackPaths+1)}), fault.InvalidRequest)
}

func TestAPackOfWhatMayNotBeRead(t *testing.T) {
	s := newSandbox(t)
	s.must(os.Mkdir(s.root+"/d", 0o755))
	for _, name := range []string{"a", "b", "c"} {
		s.put("d/"+name, name)
	}
	s.must(os.Mkdir(s.root+"/d/locked", 0o700))
	s.must(os.Chmod(s.root+"/d/b", 0o600))
	s.put("secret", "x")
	s.must(os.Chmod(s.root+"/secret", 0o600))
	var archive []byte
	var packed *Packed
	// As a runner that is not root would see it.
	s.must(asUser("nobody", func() (err error) {
		archive, packed, err = s.packHere(noLimit, s.root+"/d", s.root+"/secret")
		return err
	}))
	want := map[string]string{
		s.root + "/d":      fmt.Sprintf("%q cannot be read: permission denied, and 1 more", s.root+"/d/b"),
		s.root + "/secret": "permission denied",
	}
	if !reflect.DeepEqual(packed.Missing, want) {
		t.Errorf("%q", packed.Missing)
	}
	names, _ := s.entries(archive)
	if len(names) != 4 || !strings.HasSuffix(names[3], "/d/locked/") {
		t.Errorf("%q", names)
	}
}

// packHere makes an archive on this very thread.
func (s sandbox) packHere(limit int64, paths ...string) (whole []byte, packed *Packed, err error) {
	var asked []askedPath
	for _, path := range paths {
		asked = append(asked, askedPath{path, path})
	}
	for next := range pieces(asked, limit, new(atomic.Bool)) {
		whole, packed, err = append(whole, next.data...), next.packed, next.err
	}
	return whole, packed, err
}

func TestAFileThatChangesEndsThePack(t *testing.T) {
	for name, change := range map[string]func(s sandbox){
		"shrinks": func(s sandbox) { s.must(os.Truncate(s.root+"/file", 9*packChunk)) },
		"grows":   func(s sandbox) { s.must(os.Truncate(s.root+"/file", 11*packChunk)) },
	} {
		s := newSandbox(t)
		s.must(os.WriteFile(s.root+"/file", randomBytes(10*packChunk), 0o644))
		s.must(s.service.OpenPack("p", "client", PackRequest{Paths: []string{"file"}, LimitBytes: noLimit}))
		data, _, err := s.service.ReadPack("p", 0)
		s.must(err)
		change(s)
		offset := int64(len(data))
		var packed *Packed
		for err == nil && packed == nil {
			data, packed, err = s.service.ReadPack("p", offset)
			offset += int64(len(data))
		}
		if errnoOf(err) != fault.FileChanged {
			t.Errorf("%s: %+v %v", name, packed, err)
		}
		s.service.ClosePack("p")
	}
}

func TestAFileThatBecomesALinkIsNotFollowed(t *testing.T) {
	s := newSandbox(t)
	s.put("file", "")
	at := found{directory: unix.AT_FDCWD, name: s.root + "/file", path: s.root + "/file"}
	s.must(unix.Lstat(at.path, &at.stat))
	s.must(os.Remove(at.path))
	s.must(os.Symlink("/etc/passwd", at.path))
	var out bytes.Buffer
	made := tarball{archive: tar.NewWriter(&out), stopped: new(atomic.Bool), limit: noLimit, buffer: make([]byte, packChunk)}
	if _, ok := made.entry(&at).(denied); !ok || out.Len() > 0 {
		t.Errorf("%d bytes", out.Len())
	}
}

func TestASmallFileMayGrow(t *testing.T) {
	s := newSandbox(t)
	s.put("log", "so far")
	at := found{directory: unix.AT_FDCWD, name: s.root + "/log", path: s.root + "/log"}
	s.must(unix.Lstat(s.root+"/log", &at.stat))
	s.put("log", "so far and on")
	var out bytes.Buffer
	made := tarball{archive: tar.NewWriter(&out), stopped: new(atomic.Bool), limit: noLimit, buffer: make([]byte, packChunk)}
	s.must(made.entry(&at))
	s.must(made.archive.Close())
	reader := tar.NewReader(&out)
	_, err := reader.Next()
	s.must(err)
	if content, err := io.ReadAll(reader); err != nil || string(content) != "so far and on" {
		t.Errorf("%q %v", content, err)
	}
}

func TestPacksAreBoundedAndDropped(t *testing.T) {
	s := newSandbox(t)
	s.must(os.WriteFile(s.root+"/file", randomBytes(3*packChunk), 0o644))
	request := PackRequest{Paths: []string{"file"}, LimitBytes: noLimit}
	for _, name := range []string{"1", "2", "3", "4"} {
		s.must(s.service.OpenPack(name, "older", request))
	}
	s.wantErrno(s.service.OpenPack("5", "older", request), fault.InvalidRequest)
	first, _, err := s.service.ReadPack("1", 0)
	s.must(err)
	sent := bytes.Clone(first)
	second, _, err := s.service.ReadPack("1", int64(len(first)))
	if err != nil || !bytes.Equal(first, sent) || bytes.Equal(second, first) {
		t.Errorf("the memory of a piece was used again: %v", err)
	}
	_, _, err = s.service.ReadPack("1", 5)
	s.wantErrno(err, fault.InvalidRequest)
	s.service.AbortOthers("older")
	_, _, err = s.service.ReadPack("1", int64(len(first)))
	s.must(err)
	s.service.AbortOthers("newer")
	_, _, err = s.service.ReadPack("1", 0)
	s.wantErrno(err, fault.PackNotFound)
	s.service.ClosePack("unknown")

	s.service.packs.idle = time.Millisecond
	s.must(s.service.OpenPack("slow", "newer", request))
	for err = nil; err == nil; time.Sleep(time.Millisecond) {
		_, err = s.service.packs.find("slow")
	}
	s.wantErrno(err, fault.PackNotFound)
}

func TestAPackIsStoppedInTheMiddleOfAFile(t *testing.T) {
	s := newSandbox(t)
	s.must(os.WriteFile(s.root+"/huge", nil, 0o644))
	s.must(os.Truncate(s.root+"/huge", 1<<39)) // zeros, which come to next to nothing: minutes without a piece
	s.must(s.service.OpenPack("p", "client", PackRequest{Paths: []string{"huge"}, LimitBytes: noLimit}))
	ended := make(chan error)
	go func() {
		_, _, err := s.service.ReadPack("p", 0)
		ended <- err
	}()
	reading, err := s.service.packs.find("p")
	s.must(err)
	for reading.mu.TryLock() {
		reading.mu.Unlock()
	}
	s.service.AbortOthers("newer")
	s.wantErrno(<-ended, fault.PackNotFound)
}

func TestTreesThatAreTooMuchForAPack(t *testing.T) {
	s := newSandbox(t)
	s.must(os.Mkdir(s.root+"/deep", 0o755))
	s.deepen("deep", "d", walkLevels+1)
	s.put("file", "x")
	archive, packed, err := s.pack(noLimit, "deep", "file")
	s.must(err)
	if names, _ := s.entries(archive); len(names) != 1 || packed.Missing["deep"] != "deeper than 1000 directories" || len(packed.TooLarge) != 1 {
		t.Errorf("%q %+v", names, packed)
	}
	for _, name := range []string{"wide", "wide/a", "wide/b", "wide/b/c"} {
		s.must(os.Mkdir(s.root+"/"+name, 0o755))
	}
	for names, want := range map[int]string{walkNames - 3: "", walkNames - 2: "directories of more than 200000 entries"} {
		full := walker{stopped: new(atomic.Bool), names: names, visit: func(*found) error { return nil }}
		if err := full.walk(unix.AT_FDCWD, s.root+"/wide", "/wide", 0); (err == nil) != (want == "") || err != nil && reason(err) != want {
			t.Errorf("%d: %v", names, err)
		}
		full = walker{stopped: new(atomic.Bool), entries: walkEntries, visit: full.visit}
		s.wantErrno(full.walk(unix.AT_FDCWD, s.root+"/wide", "/wide", 0), fault.ArchiveTooLarge)
	}
}

// deepen makes so many directories inside one another.
func (s sandbox) deepen(path, name string, levels int) {
	s.Helper()
	directory, err := unix.Open(s.root+"/"+path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	s.must(err)
	for range levels {
		s.must(unix.Mkdirat(directory, name, 0o755))
		next, err := unix.Openat(directory, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		s.must(err)
		unix.Close(directory)
		directory = next
	}
	unix.Close(directory)
}
