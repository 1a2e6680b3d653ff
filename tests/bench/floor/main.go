// Command floor measures fork+exec+wait on the spot, the least that running a command can cost:
//
//	floor CALLERS WARM_UP_SECONDS SECONDS PROGRAM [ARGUMENT...]
//
// CALLERS goroutines each start the program, wait for it and start it again. What ends in the window of SECONDS after
// the warm-up is counted. Go's ForkExec is a vfork, and measured faster than os.posix_spawn of Python.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// reading is one JSON line of the protocol of tests/bench/loop.py.
type reading struct {
	Latencies  []float64 `json:"latencies_ms"`
	Seconds    float64   `json:"seconds"`
	CPUSeconds float64   `json:"cpu_seconds"` // of the client; there is none here
	Failures   int       `json:"failures"`
	Failure    string    `json:"failure"`
}

type floor struct {
	path       string
	argv       []string
	attributes *syscall.ProcAttr
	opens      time.Time
	closes     time.Time
}

func main() {
	callers, err := strconv.Atoi(os.Args[1])
	fail(err)
	warmUp, err := strconv.ParseFloat(os.Args[2], 64)
	fail(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	fail(err)
	path, err := exec.LookPath(os.Args[4])
	fail(err)
	// An os.File would be closed once the collector sees that only its descriptor is used.
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR, 0)
	fail(err)
	opens := time.Now().Add(time.Duration(warmUp * float64(time.Second)))
	measured := floor{
		path: path,
		argv: os.Args[4:],
		attributes: &syscall.ProcAttr{
			Env:   os.Environ(),
			Files: []uintptr{uintptr(null), uintptr(null), uintptr(null)},
		},
		opens:  opens,
		closes: opens.Add(time.Duration(seconds * float64(time.Second))),
	}
	fail(json.NewEncoder(os.Stdout).Encode(measured.run(callers, seconds)))
}

func (f *floor) run(callers int, seconds float64) reading {
	var group sync.WaitGroup
	var mu sync.Mutex
	whole := reading{Latencies: []float64{}, Seconds: seconds}
	for range callers {
		group.Go(func() {
			latencies := f.caller()
			mu.Lock()
			defer mu.Unlock()
			whole.Latencies = append(whole.Latencies, latencies...)
		})
	}
	group.Wait()
	return whole
}

func (f *floor) caller() []float64 {
	var latencies []float64
	for {
		begin := time.Now()
		if !begin.Before(f.closes) {
			return latencies
		}
		f.command()
		end := time.Now()
		if !end.Before(f.opens) && end.Before(f.closes) {
			latencies = append(latencies, float64(end.Sub(begin).Microseconds())/1000)
		}
	}
}

func (f *floor) command() {
	pid, err := syscall.ForkExec(f.path, f.argv, f.attributes)
	fail(err)
	var status syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	fail(err)
	if status.ExitStatus() != 0 {
		fail(fmt.Errorf("%s: wait status %#x", f.path, int(status)))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}
