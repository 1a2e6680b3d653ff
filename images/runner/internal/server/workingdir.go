package server

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const keepEvery = time.Second

// keepWorkingDir makes the container's working directory one that can be entered. Whatever comes from outside, a new
// `runner attach` too, starts there, and cannot start once the agent has removed or closed it. While a client is
// attached the agent may do with it what it likes.
func keepWorkingDir(directory string) {
	info, err := os.Stat(directory)
	if err != nil || !info.IsDir() {
		_ = os.Remove(directory) // a file in its place, or a link to nothing
		_ = os.MkdirAll(directory, 0o755)
		return
	}
	if unix.Access(directory, unix.X_OK) != nil {
		_ = os.Chmod(directory, info.Mode().Perm()|0o700)
	}
}

func (s *Server) keepWorkingDirWhileAlone() {
	for {
		time.Sleep(keepEvery)
		s.mu.Lock()
		alone := s.current == nil
		s.mu.Unlock()
		if alone {
			keepWorkingDir(s.runtime.WorkingDir)
		}
	}
}
