package files

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"golang.org/x/sys/unix"

	"episodes.dev/runner/internal/fault"
	"episodes.dev/runner/internal/proc"
)

// WriteRequest replaces a file as a whole.
type WriteRequest struct {
	Target
	Mode    *uint32 `json:"mode,omitempty"`  // nil: that of the file replaced, or 0644
	Owner   string  `json:"owner,omitempty"` // "": that of the file replaced, or the user
	Parents bool    `json:"parents,omitempty"`
	Sha256  string  `json:"sha256"`
}

// Written says what is in the file now.
type Written struct {
	SizeBytes int64  `json:"sizeBytes"`
	Sha256    string `json:"sha256"`
	// Atomic is false where the file is a mount point (as /etc/hosts in a pod is) and was rewritten in place.
	Atomic bool `json:"atomic"`
}

// draft is a file beside its later place.
type draft struct {
	where     place
	temporary string
	file      int
	request   WriteRequest
	uid, gid  int
}

// newDraft makes the temporary file in the very directory that the file will be in, so that a rename is atomic.
func (s *Service) newDraft(request WriteRequest) (made *draft, err error) {
	uid, gid, err := owner(request.Owner)
	if err != nil {
		return nil, err
	}
	path, err := request.absolute(s.WorkingDir)
	if err != nil {
		return nil, err
	}
	err = asUser(request.User, func() error {
		if request.Parents {
			if err := makeParents(path, request.RefuseLinks, false); err != nil {
				return err
			}
		}
		where, err := locateFinal(path, request.RefuseLinks)
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if unix.Fstatat(where.directory, where.name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && !request.RefuseLinks {
			if err := mustBeRegular(where.path, &stat); err != nil {
				where.close()
				return err
			}
		} else if stat.Mode&unix.S_IFMT == unix.S_IFDIR || where.name == "." {
			where.close()
			return fault.OnPath(where.path, unix.EISDIR)
		}
		temporary := randomName(".episode-upload-")
		file, err := unix.Openat(where.directory, temporary,
			unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			where.close()
			return fault.OnPath(where.path, err)
		}
		made = &draft{where: where, temporary: temporary, file: file, request: request, uid: uid, gid: gid}
		return nil
	})
	return made, err
}

// locateFinal follows a link at the path's end to the file that it names, as an editor does.
func locateFinal(path string, refuseLinks bool) (place, error) {
	for range 40 {
		where, err := locate(path, refuseLinks)
		if err != nil || refuseLinks || !isLink(where.directory, where.name) {
			return where, err
		}
		var buffer [unix.PathMax]byte
		n, err := unix.Readlinkat(where.directory, where.name, buffer[:])
		where.close()
		if err != nil {
			return place{}, fault.OnPath(path, err)
		}
		target := string(buffer[:n])
		if !filepath.IsAbs(target) {
			parent, _ := filepath.Split(path)
			target = parent + target
		}
		path = target
	}
	return place{}, fault.OnPath(path, unix.ELOOP)
}

func (d *draft) writeAt(data []byte, offset int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(d.file, data, offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fault.OnPath(d.where.path, err)
		}
		data = data[n:]
		offset += int64(n)
	}
	return nil
}

// commit reads the whole draft back, checks it and puts it in its place.
func (d *draft) commit() (written Written, err error) {
	defer d.abandon()
	written.Sha256, written.SizeBytes, err = d.hash()
	if err != nil {
		return written, err
	}
	if written.Sha256 != d.request.Sha256 {
		return written, fault.New(fault.UploadCheckFailure, "%s: sha256 of %d bytes on disk is %s, not %s: write it again",
			d.where.path, written.SizeBytes, written.Sha256, d.request.Sha256)
	}
	err = asUser(d.request.User, func() error {
		if err := d.setAttributes(); err != nil {
			return err
		}
		err := unix.Renameat(d.where.directory, d.temporary, d.where.directory, d.where.name)
		if err == nil {
			written.Atomic = true
			d.temporary = ""
			return nil
		}
		if err != unix.EBUSY {
			return fault.OnPath(d.where.path, err)
		}
		return d.copyInPlace()
	})
	return written, err
}

func (d *draft) setAttributes() error {
	mode := uint32(0o644)
	var stat unix.Stat_t
	existing := unix.Fstatat(d.where.directory, d.where.name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		stat.Mode&unix.S_IFMT == unix.S_IFREG
	if existing {
		mode = stat.Mode & 0o7777
	}
	if d.request.Mode != nil {
		mode = *d.request.Mode & 0o7777
	}
	if d.request.Owner != "" {
		if err := unix.Fchown(d.file, d.uid, d.gid); err != nil {
			return fault.OnPath(d.where.path, err)
		}
	} else if existing {
		// Where it is not allowed the file becomes the writer's, as with any editor that renames.
		_ = unix.Fchown(d.file, int(stat.Uid), int(stat.Gid))
	}
	if err := unix.Fchmod(d.file, mode); err != nil {
		return fault.OnPath(d.where.path, err)
	}
	return nil
}

func (d *draft) hash() (sum string, size int64, err error) {
	hash := sha256.New()
	err = d.eachChunk(func(chunk []byte) error {
		size += int64(len(chunk))
		hash.Write(chunk)
		return nil
	})
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

func (d *draft) eachChunk(visit func(chunk []byte) error) error {
	buffer := make([]byte, 256<<10)
	for offset := int64(0); ; {
		n, err := unix.Pread(d.file, buffer, offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fault.OnPath(d.where.path, err)
		}
		if n == 0 {
			return nil
		}
		if err := visit(buffer[:n]); err != nil {
			return err
		}
		offset += int64(n)
	}
}

func (d *draft) copyInPlace() error {
	target, err := unix.Openat(d.where.directory, d.where.name, unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.OnPath(d.where.path, err)
	}
	defer unix.Close(target)
	return d.eachChunk(func(chunk []byte) error {
		for len(chunk) > 0 {
			n, err := unix.Write(target, chunk)
			if err != nil {
				return fault.OnPath(d.where.path, err)
			}
			chunk = chunk[n:]
		}
		return nil
	})
}

// abandon closes the draft and removes what is left of it.
func (d *draft) abandon() {
	unix.Close(d.file)
	if d.temporary != "" {
		_ = asUser(d.request.User, func() error { return unix.Unlinkat(d.where.directory, d.temporary, 0) })
	}
	d.where.close()
}

// Write replaces a file by data.
func (s *Service) Write(request WriteRequest, data []byte) (Written, error) {
	made, err := s.newDraft(request)
	if err != nil {
		return Written{}, err
	}
	if err := made.writeAt(data, 0); err != nil {
		made.abandon()
		return Written{}, err
	}
	return made.commit()
}

func owner(text string) (uid, gid int, err error) {
	if text == "" {
		return -1, -1, nil
	}
	user, err := proc.LookUpUser(text)
	if err != nil {
		return -1, -1, err
	}
	if user.Credential == nil {
		return -1, -1, nil
	}
	return int(user.Credential.Uid), int(user.Credential.Gid), nil
}
