// Command runner is the one process that the operator talks to in a pod: PID 1 of the task's container.
package main

import (
	"fmt"
	"os"

	"episodes.dev/runner/internal/proc"
	"episodes.dev/runner/internal/server"
)

const usage = `usage:
  runner hold           keep the runner's own container running
  runner install DEST   copy this program to DEST (that container's postStart hook)
  runner serve          be PID 1 of the task's container
  runner attach         bridge stdin and stdout to the serving runner (exec)
  runner state FD NONCE report a shell's state (trap)
  runner reaches ADDRESS  exit 0 if HOST:PORT accepts a connection from here, else 2`

func main() {
	if len(os.Args) < 2 {
		fail(64, usage)
	}
	arguments := os.Args[2:]
	switch os.Args[1] {
	case "hold":
		hold()
	case "install":
		if len(arguments) != 1 {
			fail(64, usage)
		}
		if err := install(arguments[0]); err != nil {
			fail(1, err)
		}
	case "serve":
		fail(1, server.Serve())
	case "attach":
		if err := server.Attach(); err != nil {
			fail(1, err)
		}
	case "state":
		os.Exit(proc.ReportState(arguments))
	case "reaches":
		if len(arguments) != 1 {
			fail(64, usage)
		}
		if !reaches(arguments[0]) {
			os.Exit(2)
		}
	default:
		fail(64, usage)
	}
}

func fail(code int, reason any) {
	fmt.Fprintln(os.Stderr, "runner:", reason)
	os.Exit(code)
}
