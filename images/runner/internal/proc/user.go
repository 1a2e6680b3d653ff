package proc

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"episodes.dev/runner/internal/fault"
)

// User is whom a command or a file operation acts for.
type User struct {
	Credential *syscall.Credential // nil: the runner's own
	Home       string
	Name       string
}

// LookUpUser reads "name", "uid", "name:group" or "uid:gid" against the image's own /etc/passwd and /etc/group.
func LookUpUser(text string) (User, error) {
	if text == "" {
		return User{}, nil
	}
	name, group, hasGroup := strings.Cut(text, ":")
	user := User{Name: name, Home: "/"}
	credential := &syscall.Credential{}
	found := false
	number, numberErr := strconv.ParseUint(name, 10, 32)
	eachRecord("/etc/passwd", func(fields []string) bool {
		if len(fields) < 6 || (fields[0] != name && (numberErr != nil || fields[2] != strconv.FormatUint(number, 10))) {
			return true
		}
		uid, uidErr := strconv.ParseUint(fields[2], 10, 32)
		gid, gidErr := strconv.ParseUint(fields[3], 10, 32)
		if uidErr != nil || gidErr != nil {
			return true
		}
		credential.Uid, credential.Gid = uint32(uid), uint32(gid)
		user.Name, user.Home = fields[0], fields[5]
		found = true
		return false
	})
	if !found {
		if numberErr != nil {
			return User{}, fault.New(fault.InvalidRequest, "user %q is not in the image's /etc/passwd", name)
		}
		credential.Uid = uint32(number)
	}
	if hasGroup {
		gid, err := lookUpGroup(group)
		if err != nil {
			return User{}, err
		}
		credential.Gid = gid
	} else {
		credential.Groups = memberships(user.Name)
	}
	if os.Geteuid() != 0 {
		if int(credential.Uid) == os.Geteuid() && (!hasGroup || int(credential.Gid) == os.Getegid()) {
			return User{Name: user.Name, Home: user.Home}, nil
		}
		return User{}, fault.New(fault.InvalidRequest,
			"user %q: the container runs as uid %d and only root may act for others; leave user out", text, os.Geteuid())
	}
	if credential.Groups == nil {
		credential.Groups = []uint32{credential.Gid}
	}
	user.Credential = credential
	return user, nil
}

func lookUpGroup(text string) (uint32, error) {
	if number, err := strconv.ParseUint(text, 10, 32); err == nil {
		return uint32(number), nil
	}
	gid, found := uint32(0), false
	eachRecord("/etc/group", func(fields []string) bool {
		if len(fields) < 3 || fields[0] != text {
			return true
		}
		number, err := strconv.ParseUint(fields[2], 10, 32)
		gid, found = uint32(number), err == nil
		return !found
	})
	if !found {
		return 0, fault.New(fault.InvalidRequest, "group %q is not in the image's /etc/group", text)
	}
	return gid, nil
}

func memberships(name string) []uint32 {
	var groups []uint32
	eachRecord("/etc/group", func(fields []string) bool {
		if len(fields) < 4 {
			return true
		}
		for _, member := range strings.Split(fields[3], ",") {
			if number, err := strconv.ParseUint(fields[2], 10, 32); err == nil && member == name {
				groups = append(groups, uint32(number))
			}
		}
		return true
	})
	return groups
}

// eachRecord reads a file that the agent may have replaced by anything, even by a pipe that nobody writes to.
func eachRecord(path string, visit func(fields []string) bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	lines := bufio.NewScanner(io.LimitReader(file, 4<<20))
	for lines.Scan() {
		if !visit(strings.Split(lines.Text(), ":")) {
			return
		}
	}
}
