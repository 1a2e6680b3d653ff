// Package fault holds the one error type that crosses the wire to the operator.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Reasons, as the operator's typed errors name them.
const (
	FileError          = "FileError"
	FileChanged        = "FileChanged"
	ArchiveTooLarge    = "ArchiveTooLarge"
	CommandNotStarted  = "CommandNotStarted"
	InvalidArchive     = "InvalidArchive"
	InvalidRequest     = "InvalidRequest"
	JournalConflict    = "JournalConflict"
	JournalFull        = "JournalFull"
	KillIncomplete     = "KillIncomplete"
	PackNotFound       = "PackNotFound"
	ProcessConflict    = "ProcessConflict"
	ProcessInputFull   = "ProcessInputFull"
	ProcessLimit       = "ProcessLimit"
	ProcessNotFound    = "ProcessNotFound"
	RequestConflict    = "RequestConflict"
	ResultStoreFull    = "ResultStoreFull"
	RunnerFault        = "RunnerFault"
	UploadNotFound     = "UploadNotFound"
	UploadCheckFailure = "UploadCheckFailure"
)

// Error is answered to the operator as it is.
type Error struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Errno   string `json:"errno,omitempty"`
	Path    string `json:"path,omitempty"`
}

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// New makes an error of a reason with a formatted message.
func New(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// OnPath turns a failed system call on a path into a FileError that carries the errno's name.
func OnPath(path string, err error) *Error {
	return withErrno(FileError, path, err)
}

// NotStarted turns a failed fork or exec into CommandNotStarted.
func NotStarted(path string, err error) *Error {
	return withErrno(CommandNotStarted, path, err)
}

func withErrno(reason, path string, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var number unix.Errno
	switch {
	case errors.As(err, &number):
	case errors.Is(err, fs.ErrNotExist):
		number = unix.ENOENT
	case errors.Is(err, os.ErrPermission):
		number = unix.EACCES
	default:
		return &Error{Reason: reason, Path: path, Message: err.Error()}
	}
	return &Error{Reason: reason, Path: path, Errno: unix.ErrnoName(number), Message: number.Error()}
}

// From keeps a typed error and wraps anything else.
func From(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return New(RunnerFault, "%v", err)
}
