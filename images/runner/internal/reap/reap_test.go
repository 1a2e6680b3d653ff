package reap

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var reaper *Reaper

func TestMain(m *testing.M) {
	// Orphans then come to this process, as they come to PID 1.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	reaper = New()
	os.Exit(m.Run())
}

func start(t *testing.T, script string) *Child {
	t.Helper()
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(null)
	files := []uintptr{uintptr(null), uintptr(null), uintptr(null)}
	child, err := reaper.Start(reaper.Generation(), "/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Files: files}, func() {}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return child
}

func TestEveryChildGetsItsOwnStatus(t *testing.T) {
	var group sync.WaitGroup
	for index := range 100 {
		group.Add(1)
		go func() {
			defer group.Done()
			child := start(t, fmt.Sprintf("exit %d", index))
			<-child.Exited
			if code := child.Status().Wait.ExitStatus(); code != index {
				t.Errorf("%d ended with %d", index, code)
			}
		}()
	}
	group.Wait()
	if len(reaper.children) != 0 {
		t.Errorf("%d children are still known", len(reaper.children))
	}
}

func TestOrphansAreReaped(t *testing.T) {
	file := t.TempDir() + "/pid"
	child := start(t, "sh -c 'echo $$ >"+file+".part; mv "+file+".part "+file+"; sleep 0.1' & exit 0")
	<-child.Exited
	var pid int
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		content, err := os.ReadFile(file)
		if err == nil {
			_, _ = fmt.Sscan(string(content), &pid)
			if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

func TestAFailedStartIsNoChild(t *testing.T) {
	_, err := reaper.Start(reaper.Generation(), "/no/such", []string{"x"}, &syscall.ProcAttr{}, func() {}, func() {})
	if !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
	<-start(t, "true").Exited
}

func TestHoldKeepsChildrenFromStarting(t *testing.T) {
	began := make(chan struct{})
	reaper.Hold(func() {
		go func() {
			child := start(t, "true")
			close(began)
			<-child.Exited
		}()
		select {
		case <-began:
			t.Error("started while held")
		case <-time.After(50 * time.Millisecond):
		}
	})
	<-began
}

func TestWhatWasAskedForBeforeAHoldIsNotStarted(t *testing.T) {
	reaper := New()
	before := reaper.Generation()
	reaper.Hold(func() {})
	_, err := reaper.Start(before, "/bin/sh", []string{"sh", "-c", "true"}, &syscall.ProcAttr{}, func() {}, func() {})
	if err != syscall.ECANCELED {
		t.Fatalf("got %v", err)
	}
}
