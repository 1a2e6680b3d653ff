package files

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setThreadGroups is the bare system call: the library's function changes every thread of the process.
func setThreadGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, number := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); number != 0 {
		return number
	}
	return nil
}
