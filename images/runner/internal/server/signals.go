package server

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// faults are the signals by which the kernel reports a fault and at which the Go runtime ends or panics. A process may
// send them too, with sigqueue even in a form that the runtime takes for a fault of its own.
var faults = []syscall.Signal{
	syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGSYS,
	syscall.SIGSTKFLT,
}

// surviveSignals makes PID 1 outlive every signal that a process of the container can send. What has a handler is taken
// and dropped; fault signals get the default action, which the kernel never applies to PID 1 when they come from
// inside. SIGTERM is dropped too: from here the kubelet's looks like anyone's, so pods end by SIGKILL
// (terminationGracePeriodSeconds 0 or 1).
func surviveSignals() {
	dropped := make(chan os.Signal, 64)
	for number := syscall.Signal(1); number <= 64; number++ {
		if !isFault(number) && number != syscall.SIGKILL && number != syscall.SIGSTOP && number != syscall.SIGCHLD {
			signal.Notify(dropped, number)
		}
	}
	go func() {
		for range dropped {
		}
	}()
	for _, number := range faults {
		var action [4]uint64 // the kernel's struct sigaction: handler (0 is the default), flags, restorer, mask
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

func isFault(number syscall.Signal) bool {
	for _, fault := range faults {
		if fault == number {
			return true
		}
	}
	return false
}
