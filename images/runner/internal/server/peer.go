package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Address is the control socket's, in the abstract namespace: no file that the agent could replace. The abstract namespace
// belongs to the network, which several containers (or with hostNetwork pods) share; the process namespace's number
// tells them apart.
func Address() (*net.UnixAddr, error) {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	return &net.UnixAddr{Net: "unix", Name: "@episode-runner/" + namespace}, nil
}

// checkPeer lets in only processes that were put into the container from outside, as an exec is: their parent is in no
// namespace that can be seen from here. Everything that runs inside has a parent, and that is 1 or more.
func checkPeer(connection *net.UnixConn) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	handle := -1
	controlErr := raw.Control(func(descriptor uintptr) {
		peer, err = unix.GetsockoptUcred(int(descriptor), unix.SOL_SOCKET, unix.SO_PEERCRED)
		// A handle (Linux 6.5) shows that the number still means the process that connected.
		if number, handleErr := unix.GetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_PEERPIDFD); handleErr == nil {
			handle = number
		}
	})
	if handle >= 0 {
		defer unix.Close(handle)
	}
	if controlErr != nil || err != nil {
		return errors.Join(controlErr, err)
	}
	pid := int(peer.Pid)
	parent, err := statusField("/proc/"+strconv.Itoa(pid)+"/status", "PPid:")
	if err != nil {
		return err
	}
	if pid <= 1 || parent != 0 {
		return fmt.Errorf("process %d comes from inside the container (parent %d)", pid, parent)
	}
	if handle >= 0 {
		alive, err := statusField("/proc/self/fdinfo/"+strconv.Itoa(handle), "Pid:")
		if err != nil || alive != pid {
			return fmt.Errorf("process %d is gone (%d, %v)", pid, alive, err)
		}
	}
	return nil
}

func statusField(path, name string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for _, line := range bytes.Split(content, []byte("\n")) {
		if value, found := bytes.CutPrefix(line, []byte(name)); found {
			return strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}
