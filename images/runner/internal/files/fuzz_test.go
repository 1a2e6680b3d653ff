package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"episodes.dev/runner/internal/fault"
)

// Whatever an archive says, it does not get out of its folder, and ends well or with a typed error.
func FuzzExtract(f *testing.F) {
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
	}
	for _, seed := range [][]tar.Header{
		{file("a", "x"), file("b/c", "y")},
		{file("../precious", "x")},
		{link("a", ".."), file("a/precious", "x")},
		{link("a", ".."), {Name: "b", Linkname: "a/precious", Typeflag: tar.TypeLink}, file("b", "x")},
		{{Name: "d/", Typeflag: tar.TypeDir, Mode: 0}, file("d/x", "x"), file("d", "x")},
		{{Name: strings.Repeat("long/", 60), Typeflag: tar.TypeDir, Format: tar.FormatPAX}},
	} {
		f.Add(tarOf(seed...))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, archive []byte) {
		s := sandbox{T: t, root: t.TempDir()}
		s.put("precious", "old")
		folder, err := openFolder(s.root+"/box", -1, -1)
		s.must(err)
		x := newExtractor(folder, s.root+"/box", 1<<20, 100)
		defer x.close()
		if err = extractAll(x, bytes.NewReader(archive)); err == nil {
			err = x.finish()
		}
		var typed *fault.Error
		if err != nil && !errors.As(err, &typed) {
			t.Errorf("not typed: %v", err)
		}
		if entries, _ := os.ReadDir(s.root); len(entries) != 2 {
			t.Errorf("got out: %v", entries)
		}
		s.want("precious", "old")
	})
}
