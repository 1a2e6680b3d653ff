package server

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWorkingDirIsMadeAgain(t *testing.T) {
	for name, ruin := range map[string]func(string) error{
		"removed":  os.Remove,
		"a file":   func(path string) error { _ = os.Remove(path); return os.WriteFile(path, nil, 0o644) },
		"a link":   func(path string) error { _ = os.Remove(path); return os.Symlink("/no/such", path) },
		"no entry": func(path string) error { return os.Chmod(path, 0) },
		"as it is": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "work")
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := ruin(path); err != nil {
				t.Fatal(err)
			}
			keepWorkingDir(path)
			if err := os.Chdir(path); err != nil {
				t.Fatal(err)
			}
			_ = os.Chdir("/")
		})
	}
}

func TestWorkingDirBehindALinkStays(t *testing.T) {
	real, link := t.TempDir(), filepath.Join(t.TempDir(), "work")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	keepWorkingDir(link)
	if target, err := os.Readlink(link); err != nil || target != real {
		t.Fatalf("%q, %v", target, err)
	}
}
