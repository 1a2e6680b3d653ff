package proc

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// state is what one shell leaves to the next.
type state struct {
	cwd string
	env []string
}

type stateTable struct {
	mu     sync.Mutex
	states map[string]state
}

func (t *stateTable) get(key string) state {
	if key == "" {
		return state{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[key]
}

func (t *stateTable) put(key string, value state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states[key] = value
}

const maxStateBytes = 1 << 20

func newNonce() string {
	var random [16]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// ReportState is `runner state DESCRIPTOR NONCE`, run by the trap of a shell that ends: it writes the directory and the
// environment that it inherited, so that nobody has to read shell syntax.
func ReportState(arguments []string) int {
	if len(arguments) != 2 {
		return 2
	}
	descriptor, err := strconv.Atoi(arguments[0])
	if err != nil {
		return 2
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = os.Getenv("PWD")
	}
	body := []byte(arguments[1] + "\x00" + cwd + "\x00" + strings.Join(os.Environ(), "\x00") + "\x00" + arguments[1] + "\x00")
	for len(body) > 0 {
		n, err := syscall.Write(descriptor, body)
		if err != nil {
			return 1
		}
		body = body[n:]
	}
	return 0
}

// parseState finds the report between two nonces; a script that wrote into the descriptor itself changes nothing.
func parseState(report []byte, nonce string) (state, bool) {
	mark := []byte(nonce + "\x00")
	start := bytes.Index(report, mark)
	end := bytes.LastIndex(report, mark)
	if start < 0 || end <= start {
		return state{}, false
	}
	fields := strings.Split(strings.TrimSuffix(string(report[start+len(mark):end]), "\x00"), "\x00")
	result := state{cwd: fields[0], env: []string{}}
	for _, entry := range fields[1:] {
		name, _, found := strings.Cut(entry, "=")
		// The shell keeps these two for itself.
		if found && name != "_" && name != "SHLVL" {
			result.env = append(result.env, entry)
		}
	}
	return result, true
}

// withoutCallEnv takes back what a single call added to the environment and its script did not change.
func withoutCallEnv(after, before []string, added map[string]string) []string {
	if len(added) == 0 {
		return after
	}
	earlier := map[string]string{}
	for _, entry := range before {
		name, value, _ := strings.Cut(entry, "=")
		earlier[name] = value
	}
	kept := after[:0]
	for _, entry := range after {
		name, value, _ := strings.Cut(entry, "=")
		if addedValue, wasAdded := added[name]; wasAdded && addedValue == value {
			old, had := earlier[name]
			if !had {
				continue
			}
			entry = name + "=" + old
		}
		kept = append(kept, entry)
	}
	return kept
}
