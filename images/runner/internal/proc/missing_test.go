package proc

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMissingInterpreterIsNamed(t *testing.T) {
	folder := t.TempDir()
	shell, err := os.ReadFile(mustFind(t, "bash"))
	if err != nil {
		t.Fatal(err)
	}
	loaderOfShell := loader(shell[:headLength])
	if loaderOfShell == "" {
		t.Fatal("bash names no loader")
	}
	elsewhere := bytes.Replace(shell, []byte(loaderOfShell), bytes.Replace([]byte(loaderOfShell), []byte("/l"), []byte("/L"), 1), 1)
	unloadable := filepath.Join(folder, "unloadable")
	if err := os.WriteFile(unloadable, elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		content []byte
		want    string
	}{
		"script":         {[]byte("#!/no/such/shell -e\necho\n"), "/no/such/shell"},
		"spaces":         {[]byte("#! \t/no/such/shell\n"), "/no/such/shell"},
		"no line end":    {[]byte("#!/no/such/shell"), "/no/such/shell"},
		"good script":    {[]byte("#!/bin/sh\n"), ""},
		"empty line":     {[]byte("#!\n"), ""},
		"program":        {shell, ""},
		"other loader":   {elsewhere, "/L" + loaderOfShell[2:]},
		"in turn":        {[]byte("#!" + unloadable + "\n"), "/L" + loaderOfShell[2:]},
		"cut ELF":        {shell[:100], ""},
		"empty":          {nil, ""},
		"text":           {[]byte("echo\n"), ""},
		"headers beyond": {append(bytes.Clone(shell[:32]), bytes.Repeat([]byte{0xff}, 200)...), ""},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(folder, "program"), each.content, 0o755); err != nil {
				t.Fatal(err)
			}
			if got := missingInterpreter("program", folder); got != each.want {
				t.Errorf("missing %q, want %q", got, each.want)
			}
		})
	}
	if got := missingInterpreter(filepath.Join(folder, "absent"), "/"); got != "" {
		t.Errorf("an absent program misses %q", got)
	}
	if err := unix.Mkfifo(filepath.Join(folder, "pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := missingInterpreter(filepath.Join(folder, "pipe"), "/"); got != "" {
		t.Errorf("a pipe misses %q", got)
	}
}

func mustFind(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
