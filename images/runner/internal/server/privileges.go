package server

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noGroup is nobody's: see setApart.
const noGroup = 65_534

// setApart makes PID 1 and what is put into the container from outside differ from all that is executed inside, where
// the container runs as root: a process that lacks a capability of another may not trace it or open its files, and
// limits may be set only to a process whose real, effective and saved ids are all one's own.
func setApart() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := syscall.Setresgid(-1, -1, noGroup); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	for index := range sets {
		sets[index].Inheritable = 0
	}
	for _, call := range [][3]uintptr{
		{unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0]))},
		{unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SETPCAP},
	} {
		if _, _, errno := syscall.AllThreadsSyscall(call[0], call[1], call[2], 0); errno != 0 {
			return errno
		}
	}
	return nil
}
