package proc

import (
	"os"
	"strings"
)

// cgroupFiles lists where a file of this container's cgroup may be, by its name in version 1 and in version 2: where the
// container sees the cgroup by its whole name, then where it sees its own as the root.
func cgroupFiles(controller, version1, version2 string) []string {
	files := []string{}
	memberships, _ := os.ReadFile("/proc/self/cgroup")
	for _, line := range strings.Split(string(memberships), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[1] == controller {
			files = append(files, "/sys/fs/cgroup/"+controller+fields[2]+"/"+version1)
		}
		if fields[0] == "0" && fields[1] == "" {
			files = append(files, "/sys/fs/cgroup"+fields[2]+"/"+version2)
		}
	}
	return append(files, "/sys/fs/cgroup/"+version2, "/sys/fs/cgroup/"+controller+"/"+version1)
}
