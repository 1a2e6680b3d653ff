package files

import (
	"sort"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
)

// MaxRead bounds one read; longer files are read in pieces.
const MaxRead = 1 << 20

// Info describes a file.
type Info struct {
	Type             string `json:"type"` // file, directory, link, pipe, socket, device
	SizeBytes        int64  `json:"sizeBytes"`
	Mode             uint32 `json:"mode"` // permission bits
	UID              uint32 `json:"uid"`
	GID              uint32 `json:"gid"`
	ModifiedUnixNano int64  `json:"modifiedUnixNano"`
	Identity         string `json:"identity,omitempty"` // changes when the file is replaced
	LinkTarget       string `json:"linkTarget,omitempty"`
}

func describe(stat *unix.Stat_t) Info {
	kinds := map[uint32]string{
		unix.S_IFREG: "file", unix.S_IFDIR: "directory", unix.S_IFLNK: "link",
		unix.S_IFIFO: "pipe", unix.S_IFSOCK: "socket", unix.S_IFCHR: "device", unix.S_IFBLK: "device",
	}
	return Info{
		Type: kinds[stat.Mode&unix.S_IFMT], SizeBytes: stat.Size, Mode: stat.Mode & 0o7777, UID: stat.Uid, GID: stat.Gid,
		ModifiedUnixNano: stat.Mtim.Nano(), Identity: identity(stat),
	}
}

// StatRequest asks for a file's Info.
type StatRequest struct {
	Target
	// OfLink describes a link itself.
	OfLink bool `json:"ofLink,omitempty"`
}

// Stat describes a file.
func (s *Service) Stat(request StatRequest) (info Info, err error) {
	err = s.at(request.Target, func(where place) error {
		var stat unix.Stat_t
		flags := 0
		if request.OfLink || request.RefuseLinks {
			flags = unix.AT_SYMLINK_NOFOLLOW
		}
		if err := unix.Fstatat(where.directory, where.name, &stat, flags); err != nil {
			return fault.OnPath(where.path, err)
		}
		info = describe(&stat)
		if info.Type == "link" {
			if !request.OfLink {
				return fault.OnPath(where.path, unix.ELOOP)
			}
			var buffer [unix.PathMax]byte
			if n, err := unix.Readlinkat(where.directory, where.name, buffer[:]); err == nil {
				info.LinkTarget = string(buffer[:n])
			}
		}
		return nil
	})
	return info, err
}

// ReadRequest asks for a range of a file.
type ReadRequest struct {
	Target
	OffsetBytes int64 `json:"offsetBytes"`
	LengthBytes int   `json:"lengthBytes"`
}

// ReadResult describes the file as it was when its bytes were read.
type ReadResult struct {
	Info
	// End says that the file ends with these bytes. Files of the kernel have size 0 and content all the same.
	End bool `json:"end"`
}

// Read returns a range of a regular file.
func (s *Service) Read(request ReadRequest) (result ReadResult, data []byte, err error) {
	if request.LengthBytes < 0 || request.LengthBytes > MaxRead || request.OffsetBytes < 0 {
		return result, nil, fault.New(fault.InvalidRequest, "offsetBytes must be >= 0 and lengthBytes in 0..%d", MaxRead)
	}
	err = s.at(request.Target, func(where place) error {
		file, stat, err := openRegular(where, request.RefuseLinks)
		if err != nil {
			return err
		}
		defer unix.Close(file)
		data = make([]byte, min(int64(request.LengthBytes), max(stat.Size-request.OffsetBytes+1, 4096)))
		filled := 0
		for filled < len(data) {
			n, err := unix.Pread(file, data[filled:], request.OffsetBytes+int64(filled))
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return fault.OnPath(where.path, err)
			}
			if n == 0 {
				result.End = true
				break
			}
			filled += n
		}
		data = data[:filled]
		if stat.Size > 0 && request.OffsetBytes+int64(filled) >= stat.Size {
			result.End = true
		}
		result.Info = describe(stat)
		return nil
	})
	return result, data, err
}

// openRegular opens a file for reading; nothing else is ever opened, for a pipe would block and a device has no end.
func openRegular(where place, refuseLinks bool) (int, *unix.Stat_t, error) {
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	if refuseLinks {
		flags |= unix.O_NOFOLLOW
	}
	var stat unix.Stat_t
	statFlags := 0
	if refuseLinks {
		statFlags = unix.AT_SYMLINK_NOFOLLOW
	}
	if err := unix.Fstatat(where.directory, where.name, &stat, statFlags); err != nil {
		return -1, nil, fault.OnPath(where.path, err)
	}
	if err := mustBeRegular(where.path, &stat); err != nil {
		return -1, nil, err
	}
	file, err := unix.Openat(where.directory, where.name, flags, 0)
	if err != nil {
		return -1, nil, fault.OnPath(where.path, err)
	}
	if err := unix.Fstat(file, &stat); err != nil {
		unix.Close(file)
		return -1, nil, fault.OnPath(where.path, err)
	}
	if err := mustBeRegular(where.path, &stat); err != nil {
		unix.Close(file)
		return -1, nil, err
	}
	return file, &stat, nil
}

func mustBeRegular(path string, stat *unix.Stat_t) error {
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return fault.OnPath(path, unix.EISDIR)
	case unix.S_IFLNK:
		return fault.OnPath(path, unix.ELOOP)
	}
	return &fault.Error{Reason: fault.FileError, Errno: "EINVAL", Path: path, Message: "is a pipe, socket or device, not a file"}
}

// ListRequest asks for a directory's entries.
type ListRequest struct {
	Target
	LimitEntries int `json:"limitEntries"`
}

// ListResult describes entries in the order of their names, which follow as payload, each ended by a zero byte.
type ListResult struct {
	Entries        []Info `json:"entries"`
	OmittedEntries int    `json:"omittedEntries"`
}

// List reads a directory.
func (s *Service) List(request ListRequest) (result ListResult, names []byte, err error) {
	err = s.at(request.Target, func(where place) error {
		directory, err := openDirectory(where, request.RefuseLinks)
		if err != nil {
			return err
		}
		defer unix.Close(directory)
		found, err := entryNames(directory)
		if err != nil {
			return fault.OnPath(where.path, err)
		}
		sort.Strings(found)
		if len(found) > request.LimitEntries {
			result.OmittedEntries = len(found) - request.LimitEntries
			found = found[:request.LimitEntries]
		}
		result.Entries = make([]Info, 0, len(found))
		for _, name := range found {
			var stat unix.Stat_t
			if unix.Fstatat(directory, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			info := describe(&stat)
			info.Identity = ""
			result.Entries = append(result.Entries, info)
			names = append(append(names, name...), 0)
		}
		return nil
	})
	return result, names, err
}

func openDirectory(where place, refuseLinks bool) (int, error) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if refuseLinks {
		flags |= unix.O_NOFOLLOW
	}
	directory, err := unix.Openat(where.directory, where.name, flags, 0)
	if err != nil {
		if refuseLinks && isLink(where.directory, where.name) {
			err = unix.ELOOP
		}
		return -1, fault.OnPath(where.path, err)
	}
	return directory, nil
}

func entryNames(directory int) ([]string, error) {
	var names []string
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(directory, buffer)
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}
