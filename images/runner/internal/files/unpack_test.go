package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

func tarOf(headers ...tar.Header) []byte {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, header := range headers {
		content := header.Uname // borrowed
		header.Uname = ""
		header.Size = int64(len(content))
		if header.Typeflag == 0 {
			header.Typeflag = tar.TypeReg
		}
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		if err := archive.WriteHeader(&header); err != nil {
			panic(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			panic(err)
		}
	}
	if err := archive.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func zip(data []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write(data)
	_ = writer.Close()
	return out.Bytes()
}

func file(name, content string) tar.Header { return tar.Header{Name: name, Uname: content} }

func (s sandbox) unpack(archive []byte, request UnpackRequest) (Unpacked, error) {
	s.Helper()
	if request.LimitBytes == 0 {
		request.LimitBytes = noLimit
	}
	if request.LimitEntries == 0 {
		request.LimitEntries = 1000
	}
	s.must(s.service.OpenArchive("u", "client", Target{Path: request.Path}))
	s.must(s.service.WriteUpload("u", 0, archive))
	s.must(s.service.SealUpload("u", Packed{Sha256: sum(archive)}))
	return s.service.Unpack("u", request)
}

func TestWhatWasPackedIsUnpacked(t *testing.T) {
	s := newSandbox(t)
	s.must(os.MkdirAll(s.root+"/d/read only/empty", 0o755))
	big := string(randomBytes(2*packChunk + 5))
	s.put("d/read only/big", big)
	s.put("d/run", "#!/bin/sh")
	s.must(os.Chmod(s.root+"/d/run", 0o755|os.ModeSetuid))
	s.must(os.Symlink("/etc/passwd", s.root+"/d/link"))
	for _, name := range []string{"d/run", "d/read only/empty", "d/read only", "d"} {
		s.must(os.Lchown(s.root+"/"+name, 1234, 5678))
		at := time.Unix(1_000_000_000+int64(len(name)), 987_654_321)
		s.must(os.Chtimes(s.root+"/"+name, at, at))
	}
	s.must(os.Chmod(s.root+"/d/run", 0o755|os.ModeSetuid))
	s.must(os.Chmod(s.root+"/d/read only", 0o555))
	s.must(os.Chtimes(s.root+"/d/read only", time.Time{}, time.Unix(1, 0)))
	archive, packed, err := s.pack(noLimit, "d")
	s.must(err)
	unpacked, err := s.unpack(archive, UnpackRequest{Path: "made/new"})
	s.must(err)
	if unpacked.Sha256 != packed.Sha256 || unpacked.SizeBytes != packed.SizeBytes || unpacked.Entries != 6 {
		t.Errorf("%+v", unpacked)
	}
	again, _, err := s.pack(noLimit, "made/new"+s.root+"/d")
	s.must(err)
	_, first := s.entries(archive)
	names, second := s.entries(again)
	prefix := strings.TrimPrefix(s.root, "/") + "/made/new/"
	for _, name := range names {
		a, b := first[strings.TrimPrefix(name, prefix)], second[name]
		if a.header == nil || a.content != b.content || a.header.Mode != b.header.Mode || a.header.Uid != b.header.Uid ||
			a.header.Gid != b.header.Gid || !a.header.ModTime.Equal(b.header.ModTime) || a.header.Linkname != b.header.Linkname {
			t.Errorf("%s: %+v %+v", name, a.header, b.header)
		}
	}
	if len(first) != len(second) {
		t.Errorf("%q", names)
	}
	// The owner asked for goes before the archive's.
	_, err = s.unpack(archive, UnpackRequest{Path: "other", Owner: "77:88"})
	s.must(err)
	for _, name := range []string{"", s.root, s.root + "/d/run", s.root + "/d/link", s.root + "/d/read only"} {
		var stat unix.Stat_t
		s.must(unix.Lstat(s.root+"/other"+name, &stat))
		if stat.Uid != 77 || stat.Gid != 88 {
			t.Errorf("%s: %d:%d", name, stat.Uid, stat.Gid)
		}
	}
	if info, _ := os.Stat(s.root + "/other" + s.root + "/d/run"); info.Mode() != 0o755|os.ModeSetuid {
		t.Error(info.Mode())
	}
	s.noLeftovers()
}

func TestUnpackingReplacesWhatIsThere(t *testing.T) {
	s := newSandbox(t)
	outside := t.TempDir()
	s.must(os.WriteFile(outside+"/precious", []byte("old"), 0o600))
	s.must(os.MkdirAll(s.root+"/box/file/deep", 0o755))
	s.must(os.MkdirAll(s.root+"/box/kept", 0o700))
	s.put("box/kept/stays", "x")
	s.put("box/dir", "x")
	s.must(os.Symlink(outside, s.root+"/box/dirlink"))
	s.must(os.Symlink(outside+"/precious", s.root+"/box/filelink"))
	s.must(unix.Mkfifo(s.root+"/box/pipe", 0o644))
	_, err := s.unpack(zip(tarOf(
		file("./file", "1"), file("pipe", "2"), file("filelink", "3"), tar.Header{Name: "dirlink/", Typeflag: tar.TypeDir, Mode: 0o755},
		file("dirlink/precious", "4"), tar.Header{Name: "dir", Typeflag: tar.TypeDir, Mode: 0o700},
		tar.Header{Name: "kept", Typeflag: tar.TypeDir, Mode: 0o711}, file("kept/new", "5"), file("new/er//x", "6"),
		tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "new/er/x"}, file("twice", "7"), file("twice", "8"),
		tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "hard"},
		tar.Header{Name: "gone/", Typeflag: tar.TypeDir, Mode: 0o700}, file("gone/x", ""), file("gone", "9"),
	)), UnpackRequest{Path: "box"})
	s.must(err)
	for name, content := range map[string]string{
		"file": "1", "pipe": "2", "filelink": "3", "dirlink/precious": "4", "kept/new": "5", "kept/stays": "x",
		"new/er/x": "6", "hard": "6", "twice": "8", "gone": "9",
	} {
		s.want("box/"+name, content)
	}
	if got, _ := os.ReadFile(outside + "/precious"); string(got) != "old" {
		t.Error("followed a link")
	}
	for name, mode := range map[string]os.FileMode{"dir": 0o700, "kept": 0o711, "dirlink": 0o755, "new": 0o755} {
		if info, err := os.Lstat(s.root + "/box/" + name); err != nil || info.Mode() != mode|os.ModeDir {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
}

func TestAnArchiveNeverLeavesItsFolder(t *testing.T) {
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
	}
	for name, headers := range map[string][]tar.Header{
		"absolute":              {file("/escaped", "x")},
		"above":                 {file("../escaped", "x")},
		"above in the middle":   {file("a/../../escaped", "x")},
		"back into the folder":  {file("a/../b", "x")},
		"through its own link":  {link("a", ".."), file("a/escaped", "x")},
		"through a deep link":   {link("a/b", "../.."), file("a/b/c/escaped", "x")},
		"directory in its link": {link("a", ".."), {Name: "a/escaped/", Typeflag: tar.TypeDir}},
		"through a link there":  {file("there/escaped", "x")},
		"through a file there":  {file("plain/escaped", "x")},
		"hard link above":       {{Name: "a", Linkname: "../precious", Typeflag: tar.TypeLink}},
		"hard link absolute":    {{Name: "a", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}},
		"hard link by a link":   {link("a", ".."), {Name: "b", Linkname: "a/precious", Typeflag: tar.TypeLink}},
		"hard link to nothing":  {{Name: "a", Linkname: "nothing", Typeflag: tar.TypeLink}},
		"hard link to itself":   {{Name: "a", Linkname: "b", Typeflag: tar.TypeLink}, {Name: "b", Linkname: "a", Typeflag: tar.TypeLink}},
		"the folder as a file":  {file(".", "x")},
		"a device":              {{Name: "a", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"a pipe":                {{Name: "a", Typeflag: tar.TypeFifo}},
		"no owner":              {{Name: "a", Uid: 1<<32 - 1}},
	} {
		s := newSandbox(t)
		s.put("precious", "old")
		s.must(os.Mkdir(s.root+"/box", 0o755))
		s.must(os.Symlink("..", s.root+"/box/there"))
		s.put("box/plain", "plain")
		_, err := s.unpack(zip(tarOf(headers...)), UnpackRequest{Path: "box"})
		if got := errnoOf(err); got != fault.InvalidArchive {
			t.Errorf("%s: %v", name, err)
		}
		if entries, _ := os.ReadDir(s.root); len(entries) != 2 {
			t.Errorf("%s: %v", name, entries)
		}
		s.want("precious", "old")
		s.want("box/plain", "plain")
	}
	s := newSandbox(t)
	s.must(os.Symlink("/tmp", s.root+"/link"))
	_, err := s.unpack(zip(tarOf(file("a", "x"))), UnpackRequest{Path: "link/box"})
	s.wantErrno(err, "ELOOP")
	_, err = s.unpack(zip(tarOf(file("a", "x"))), UnpackRequest{Path: "link"})
	s.wantErrno(err, "ELOOP")
}

func TestArchivesThatAreNone(t *testing.T) {
	s := newSandbox(t)
	good := tarOf(file("a", strings.Repeat("x", 5000)), file("b", "y"))
	for name, archive := range map[string][]byte{
		"empty": {}, "text": []byte("hello"), "not compressed": good, "cut": zip(good)[:60], "cut tar": zip(good[:3000]),
		"no tar": zip([]byte(strings.Repeat("no tar ", 1000))), "a tail": zip(append(good, make([]byte, 2*maxPadding)...)),
		"wrong checksum": func() []byte { data := zip(good); data[len(data)-6] ^= 1; return data }(),
	} {
		_, err := s.unpack(archive, UnpackRequest{Path: "box"})
		if got := errnoOf(err); got != fault.InvalidArchive {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.unpack(zip(append(good, make([]byte, 10240)...)), UnpackRequest{Path: "box"})
	s.must(err)
}

func TestUnpackingIsBounded(t *testing.T) {
	s := newSandbox(t)
	archive := zip(tarOf(file("a", "12345"), file("b", "12345")))
	for _, request := range []UnpackRequest{{LimitBytes: 9}, {LimitEntries: 1}} {
		request.Path = "box"
		_, err := s.unpack(archive, request)
		s.wantErrno(err, fault.ArchiveTooLarge)
	}
	_, err := s.unpack(archive, UnpackRequest{Path: "box", LimitBytes: 10, LimitEntries: 2})
	s.must(err)
	// A few bytes that say they are 8 EiB.
	bomb := tarOf(file("a", ""))
	copy(bomb[124:136], "\x80\x00\x00\x00\x70\x00\x00\x00\x00\x00\x00\x00")
	checksum(bomb)
	_, err = s.unpack(zip(bomb), UnpackRequest{Path: "box"})
	s.wantErrno(err, fault.ArchiveTooLarge)
	var many []tar.Header
	for range 100 {
		many = append(many, tar.Header{Name: strings.Repeat("d", 200) + "/" + strings.Repeat("e", len(many)+1) + "/", Typeflag: tar.TypeDir, Mode: 0o755})
	}
	x := newExtractor(-1, "", 0, 1000)
	x.directoryBytes = maxDirectoryBytes
	folder, err := openFolder(s.root+"/many", -1, -1)
	s.must(err)
	x.folder = folder
	defer x.close()
	s.wantErrno(extractAll(x, bytes.NewReader(tarOf(many...))), fault.ArchiveTooLarge)
}

// checksum makes the first header's right again.
func checksum(archive []byte) {
	copy(archive[148:156], "        ")
	total := 0
	for _, value := range archive[:512] {
		total += int(value)
	}
	copy(archive[148:156], []byte{
		'0' + byte(total>>15&7), '0' + byte(total>>12&7), '0' + byte(total>>9&7), '0' + byte(total>>6&7),
		'0' + byte(total>>3&7), '0' + byte(total&7), 0, ' ',
	})
}

func TestPathsAreReplacedAsAWhole(t *testing.T) {
	s := newSandbox(t)
	s.must(os.MkdirAll(s.root+"/box/work/old", 0o755))
	s.put("box/work/old/file", "x")
	s.put("box/file", "x")
	s.put("box/stays", "x")
	s.put("box/hosts", "old")
	s.put("source", "of the mount")
	s.must(os.MkdirAll(s.root+"/box/mounts/goes", 0o755))
	s.put("box/mounts/file", "")
	for _, mount := range []string{"/box/hosts", "/box/mounts/file"} {
		s.must(unix.Mount(s.root+"/source", s.root+mount, "", unix.MS_BIND, ""))
		defer func() { _ = unix.Unmount(s.root+mount, 0) }()
	}
	archive := zip(tarOf(file("work/new", "y"), file("hosts", "new")))
	replace := []string{"box/work", "box/file", "box/absent/too", "box/hosts", "box/mounts"}
	_, err := s.unpack(archive, UnpackRequest{Path: "box", Replace: replace})
	s.must(err)
	found := ""
	_ = filepath.WalkDir(s.root+"/box", func(path string, _ os.DirEntry, _ error) error {
		found += strings.TrimPrefix(path, s.root) + " "
		return nil
	})
	if found != "/box /box/hosts /box/mounts /box/mounts/file /box/stays /box/work /box/work/new " {
		t.Error(found)
	}
	s.want("source", "new") // a mount point cannot be replaced
	_, err = s.unpack(archive, UnpackRequest{Path: "box", Replace: []string{"/"}})
	s.must(err)
	s.want("box/stays", "x")
}

func TestUnpackingWithoutRoot(t *testing.T) {
	s := newSandbox(t)
	s.must(os.Mkdir(s.root+"/theirs", 0o755))
	s.put("theirs/same", "same")
	s.must(os.WriteFile(s.root+"/theirs/open", []byte("old"), 0o666))
	s.must(os.Chmod(s.root+"/theirs/open", 0o666))
	s.must(os.Symlink("same", s.root+"/theirs/link"))
	s.must(os.Mkdir(s.root+"/theirs/locked", 0o755))
	unpackAs := func(user string, headers ...tar.Header) error {
		return asUser(user, func() error {
			x := newExtractor(-1, s.root, noLimit, 1000)
			x.user = 65534
			folder, err := openFolder(s.root, -1, -1)
			if err != nil {
				return err
			}
			x.folder = folder
			defer x.close()
			return unpackInto(x, bytes.NewReader(zip(tarOf(headers...))))
		})
	}
	directory := func(name string, mode int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}
	}
	s.must(unpackAs("nobody",
		directory("theirs", 0o777), file("theirs/same", "same"), file("theirs/open", "new"),
		tar.Header{Name: "theirs/link", Typeflag: tar.TypeSymlink, Linkname: "same"}, directory("theirs/locked", 0o755),
		directory("mine", 0o555), file("mine/x", "x"), directory("shut", 0), directory("shut/in", 0o711),
	))
	s.must(unpackAs("nobody", directory("mine", 0o500), file("mine/y", "y"), directory("shut", 0), directory("shut/in", 0o700)))
	s.want("mine/y", "y")
	s.want("theirs/open", "new")
	s.want("mine/x", "x")
	if info, _ := os.Stat(s.root + "/theirs"); info.Mode().Perm() != 0o755 {
		t.Error(info.Mode())
	}
	for _, wrong := range []tar.Header{
		file("theirs/same", "diff"), file("theirs/same", "longer"), file("theirs/new", "x"), directory("theirs/newdir", 0o755),
		{Name: "theirs/link", Typeflag: tar.TypeSymlink, Linkname: "other"},
	} {
		s.wantErrno(unpackAs("nobody", wrong), "EACCES")
	}
	s.want("theirs/same", "same")
}

func TestAnUploadIsSealedBeforeItIsUnpacked(t *testing.T) {
	s := newSandbox(t)
	archive := zip(tarOf(file("a", "x")))
	open := func(name string) { s.must(s.service.OpenArchive(name, "client", Target{Path: "box/not/there"})) }
	open("u")
	s.must(s.service.WriteUpload("u", 0, archive))
	s.wantErrno(s.service.SealUpload("u", Packed{Sha256: sum([]byte("other"))}), fault.UploadCheckFailure)
	_, err := s.service.Unpack("u", UnpackRequest{Path: "box", LimitBytes: 10, LimitEntries: 10})
	s.wantErrno(err, fault.InvalidRequest)
	s.wantErrno(s.service.SealUpload("u", Packed{}), fault.UploadNotFound)
	_, err = s.service.Unpack("u", UnpackRequest{Path: "box", LimitBytes: 10, LimitEntries: 10})
	s.wantErrno(err, fault.UploadNotFound)
	open("u")
	s.must(s.service.WriteUpload("u", 0, archive))
	for range 2 {
		s.must(s.service.SealUpload("u", Packed{Sha256: sum(archive), Missing: map[string]string{"/x": "why"}}))
	}
	unpacked, err := s.service.Unpack("u", UnpackRequest{Path: "box", LimitBytes: 10, LimitEntries: 10})
	if err != nil || unpacked.Missing["/x"] != "why" || unpacked.SizeBytes != int64(len(archive)) || unpacked.Entries != 1 {
		t.Errorf("%+v %v", unpacked, err)
	}
	open("lost")
	s.service.AbortOthers("newer")
	s.wantErrno(s.service.WriteUpload("lost", 0, nil), fault.UploadNotFound)
	s.noLeftovers()
}

func TestASpoolHasNoName(t *testing.T) {
	s := newSandbox(t)
	s.must(os.Mkdir(s.root+"/mount", 0o755))
	s.must(unix.Mount("tmpfs", s.root+"/mount", "tmpfs", 0, "size=64k"))
	defer func() { _ = unix.Unmount(s.root+"/mount", 0) }()
	spool, err := s.service.newSpool(s.root + "/mount/box")
	s.must(err)
	var stat, mount unix.Stat_t
	s.must(unix.Fstat(spool.file, &stat))
	s.must(unix.Stat(s.root+"/mount", &mount))
	if entries, _ := os.ReadDir(s.root + "/mount"); len(entries) != 0 || stat.Nlink != 0 || stat.Dev != mount.Dev {
		t.Errorf("%v %+v", entries, stat)
	}
	err = spool.writeAt(make([]byte, 100<<10), 0)
	s.wantErrno(err, "ENOSPC")
	spool.abandon()
	// As a runner that is not root, where only the last resort is left.
	s.must(os.Chmod(s.root+"/mount", 0o700))
	s.must(asUser("nobody", func() error {
		spool, err := s.service.newSpool("/etc")
		if err == nil {
			spool.abandon()
		}
		return err
	}))
}
