package proc

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// headLength is enough for a first line, and for the program headers that linkers put first.
const headLength = 4096

// interpretersInTurn bounds how many interpreters need one themselves; the kernel gives up earlier.
const interpretersInTurn = 5

// missingInterpreter names what a program that is there cannot be run without: the interpreter in its first line, or the
// loader that it is linked to. The kernel says "no such file" of the program itself then. Empty: nothing is missing.
func missingInterpreter(path, cwd string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	for range interpretersInTurn {
		path = interpreter(readHead(path))
		if path == "" {
			return ""
		}
		if unix.Access(path, unix.F_OK) == unix.ENOENT {
			return path
		}
	}
	return ""
}

func interpreter(head []byte) string {
	line, found := bytes.CutPrefix(head, []byte("#!"))
	if !found {
		return loader(head)
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// readHead reads the first bytes of a regular file; anything else has none.
func readHead(path string) []byte {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	head := make([]byte, headLength)
	n, _ := file.ReadAt(head, 0)
	return head[:n]
}

// loader reads the PT_INTERP of a 64-bit little-endian ELF file. debug/elf would do more than PID 1 should do with a
// file that the agent may have written.
func loader(head []byte) string {
	if len(head) < 64 || !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) {
		return ""
	}
	offset := binary.LittleEndian.Uint64(head[32:])
	size := uint64(binary.LittleEndian.Uint16(head[54:]))
	count := uint64(binary.LittleEndian.Uint16(head[56:]))
	if size != 56 || offset > headLength {
		return ""
	}
	for number := range count {
		at := offset + number*size
		if at+size > uint64(len(head)) {
			return ""
		}
		header := head[at : at+size]
		if binary.LittleEndian.Uint32(header) != 3 { // PT_INTERP
			continue
		}
		start, length := binary.LittleEndian.Uint64(header[8:]), binary.LittleEndian.Uint64(header[32:])
		if start > uint64(len(head)) || length > uint64(len(head))-start {
			return ""
		}
		name, _, _ := bytes.Cut(head[start:start+length], []byte{0})
		return string(name)
	}
	return ""
}
