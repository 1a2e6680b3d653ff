package server

import (
	"runtime"
	"sync"
)

const (
	// processors is how many threads run Go code at a time, on whatever machine: two may wait in system calls (fork and
	// wait4) and the others go on.
	processors  = 4
	keptThreads = 32
)

// keepThreads makes threads for later. The Go runtime ends the process when it cannot make a thread, and a fork bomb in
// the container may leave no room for one; what is made now is kept for ever, and no more than this is needed.
func keepThreads() {
	runtime.GOMAXPROCS(processors)
	var made, done sync.WaitGroup
	release := make(chan struct{})
	for range keptThreads {
		made.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			made.Done()
			<-release
			runtime.UnlockOSThread()
		}()
	}
	made.Wait()
	close(release)
	done.Wait()
}
