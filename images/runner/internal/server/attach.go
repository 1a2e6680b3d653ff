package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Attach hands this process's stdin and stdout over to the serving runner, which from then on talks to the operator
// directly, and stays until either side is done.
func Attach() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	address, err := Address()
	if err != nil {
		return err
	}
	connection, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return fmt.Errorf("no runner serves in this container: %w", err)
	}
	defer connection.Close()
	if err := mustBeInit(connection); err != nil {
		return err
	}
	rights := unix.UnixRights(0, 1)
	// A refusal may come before this is sent, so what was answered matters more than whether this worked.
	_, _, _ = connection.WriteMsgUnix([]byte{'A'}, rights, nil)
	answer, err := io.ReadAll(connection)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	if len(answer) > 0 {
		return errors.New(string(answer))
	}
	return err
}

// mustBeInit makes sure that it is PID 1 that listens, not something that took its name.
func mustBeInit(connection *net.UnixConn) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(descriptor uintptr) {
		peer, err = unix.GetsockoptUcred(int(descriptor), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); controlErr != nil {
		return controlErr
	}
	if err != nil {
		return err
	}
	if peer.Pid != 1 {
		return fmt.Errorf("process %d listens, not PID 1", peer.Pid)
	}
	return nil
}

// receive takes the descriptors that Attach sends.
func receive(connection *net.UnixConn) (input, output *os.File, err error) {
	data := make([]byte, 1)
	space := make([]byte, unix.CmsgSpace(2*4))
	n, spaceUsed, _, _, err := connection.ReadMsgUnix(data, space)
	if err != nil || n != 1 {
		return nil, nil, fmt.Errorf("no descriptors: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(space[:spaceUsed])
	if err != nil || len(messages) != 1 {
		return nil, nil, fmt.Errorf("no descriptors: %w", err)
	}
	descriptors, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, nil, err
	}
	if len(descriptors) != 2 {
		for _, descriptor := range descriptors {
			unix.Close(descriptor)
		}
		return nil, nil, fmt.Errorf("%d descriptors", len(descriptors))
	}
	for _, descriptor := range descriptors {
		// So that the runtime polls them, and closing ends a pending read.
		if err := unix.SetNonblock(descriptor, true); err != nil {
			return nil, nil, err
		}
	}
	return os.NewFile(uintptr(descriptors[0]), "operator-in"), os.NewFile(uintptr(descriptors[1]), "operator-out"), nil
}
