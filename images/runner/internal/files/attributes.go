package files

import (
	"archive/tar"
	"path"
	"sort"

	"golang.org/x/sys/unix"
)

// attributes are what an entry has besides its content.
type attributes struct {
	mode     uint32
	uid, gid int // -1: as it is
	modified unix.Timespec
}

func (x *extractor) attributesOf(header *tar.Header) attributes {
	found := attributes{
		mode: uint32(header.Mode) & 0o7777, uid: x.uid, gid: x.gid,
		modified: unix.Timespec{Sec: header.ModTime.Unix(), Nsec: int64(header.ModTime.Nanosecond())},
	}
	if x.uid < 0 && x.user == 0 {
		found.uid, found.gid = header.Uid, header.Gid
	}
	return found
}

// set gives an open file or directory its attributes. A change of owner takes set-uid bits away, so it comes first.
func (x *extractor) set(at spot, file int, wanted attributes) error {
	if wanted.uid >= 0 {
		if err := unix.Fchown(file, wanted.uid, wanted.gid); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(file, wanted.mode); err != nil {
		return err
	}
	return setTime(at, wanted)
}

func setTime(at spot, wanted attributes) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, wanted.modified}
	return unix.UtimesNanoAt(at.directory, at.name, times, unix.AT_SYMLINK_NOFOLLOW)
}

// finish sets the attributes of directories, of those inside before those around them.
func (x *extractor) finish() error {
	names := make([]string, 0, len(x.directories))
	for name := range x.directories {
		names = append(names, name)
	}
	sort.Sort(sort.Reverse(sort.StringSlice(names)))
	for _, name := range names {
		directory, err := x.enter(path.Dir(name))
		if err != nil {
			return err
		}
		at := spot{directory: directory, name: path.Base(name), entry: name}
		made, err := openOwn(directory, at.name)
		if err != nil {
			return x.fail(at, err)
		}
		err = x.set(at, made, x.directories[name])
		unix.Close(made)
		if err != nil {
			return x.fail(at, err)
		}
	}
	return nil
}
