// Package server is the runner as PID 1: it takes the operator's connection and answers its requests.
package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/files"
	"episodes.dev/runner/internal/journal"
	"episodes.dev/runner/internal/proc"
	"episodes.dev/runner/internal/reap"
	"episodes.dev/runner/internal/store"
)

// Server holds everything that outlives a connection.
type Server struct {
	instance string
	begin    time.Time
	runtime  *proc.Runtime
	table    *proc.Table
	files    *files.Service
	store    *store.Store
	journal  *journal.Journal

	gate sync.RWMutex // held to read while files are changed: see killAll

	mu      sync.Mutex
	current *connection
	running map[string]int // process ids of running execs by request id
}

// Serve never returns while it can listen.
func Serve() error {
	if os.Getpid() != 1 {
		return errors.New("serve must be PID 1 of its container: it reaps orphans and lives as long as the pod " +
			"(with shareProcessNamespace it cannot)")
	}
	surviveSignals()
	keepThreads()
	if err := setApart(); err != nil {
		return err
	}
	address, err := Address()
	if err != nil {
		return err
	}
	reaper := reap.New()
	rt := proc.NewRuntime(reaper)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_DUMPABLE: %w", err)
	}
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		return err
	}
	var random [16]byte
	_, _ = rand.Read(random[:])
	server := &Server{
		instance: hex.EncodeToString(random[:]),
		begin:    time.Now(),
		runtime:  rt,
		table:    proc.NewTable(rt),
		files:    files.NewService(rt.WorkingDir),
		store:    store.New(),
		journal:  &journal.Journal{},
		running:  map[string]int{},
	}
	go server.keepWorkingDirWhileAlone()
	for {
		accepted, err := listener.AcceptUnix()
		if err != nil {
			// Out of descriptors, most likely: the agent cannot cause it, but waiting is better than ending the pod.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go server.admit(accepted)
	}
}

// admit makes a peer the one attached client. The newest wins: an older one is either dead or about to be replaced.
func (s *Server) admit(socket *net.UnixConn) {
	defer socket.Close()
	if err := checkPeer(socket); err != nil {
		_, _ = socket.Write([]byte("refused: " + err.Error()))
		return
	}
	_ = socket.SetReadDeadline(time.Now().Add(10 * time.Second))
	input, output, err := receive(socket)
	if err != nil {
		_, _ = socket.Write([]byte(err.Error()))
		return
	}
	_ = socket.SetReadDeadline(time.Time{})
	attached := newConnection(s, socket, input, output)
	s.mu.Lock()
	older := s.current
	s.current = attached
	s.mu.Unlock()
	if older != nil {
		older.goodbye("Superseded", "another client has attached")
	}
	attached.run()
	s.mu.Lock()
	if s.current == attached {
		s.current = nil
	}
	s.mu.Unlock()
}
