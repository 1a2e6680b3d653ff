package proc

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// victimScore makes children the first victims when memory runs out. The score is inherited at fork, and only a
// process of the same user may set it later, so the runner raises its own while it forks.
type victimScore struct {
	file *os.File
	own  string
}

func openVictimScore() victimScore {
	file, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return victimScore{}
	}
	var buffer [16]byte
	n, _ := file.Read(buffer[:])
	score := victimScore{file: file, own: strings.TrimSpace(string(buffer[:n]))}
	// Where the way back is not allowed (no CAP_SYS_RESOURCE and a floor above), never leave.
	if score.own == "1000" || score.set("1000") != nil || score.set(score.own) != nil {
		return victimScore{}
	}
	return score
}

func (v victimScore) set(value string) error {
	_, err := v.file.WriteAt([]byte(value), 0)
	return err
}

func (v victimScore) raise() {
	if v.file != nil {
		_ = v.set("1000")
	}
}

func (v victimScore) restore() {
	if v.file != nil {
		_ = v.set(v.own)
	}
}

// mark sets a child's score from outside, where the runner could not raise its own. It works where both have one user,
// which is where raising does not: a runner that is not root may not open its own score.
func (v victimScore) mark(pid int) {
	if v.file == nil {
		markTree(pid)
	}
}

// markTree marks a process and then what it had forked before, which has not inherited the mark.
func markTree(pid int) {
	number := strconv.Itoa(pid)
	_ = os.WriteFile("/proc/"+number+"/oom_score_adj", []byte("1000"), 0)
	children, _ := os.ReadFile("/proc/" + number + "/task/" + number + "/children")
	for _, field := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			markTree(child)
		}
	}
}

// oomCounter reads how many processes of the container the kernel has killed for want of memory.
type oomCounter struct {
	file *os.File
	mu   sync.Mutex
	told int64 // the count that some call's result has told of
}

func openOomCounter() *oomCounter {
	for _, path := range cgroupFiles("memory", "memory.oom_control", "memory.events") {
		if file, err := os.Open(path); err == nil {
			counter := &oomCounter{file: file}
			if counter.told = counter.read(); counter.told >= 0 {
				return counter
			}
			file.Close()
		}
	}
	return &oomCounter{}
}

// rose says whether the count is above what it was at before, or at the end of the last call: so a kill is told by
// every call that ran then, and one between calls by the next.
func (c *oomCounter) rose(before int64) bool {
	now := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	rose := now > min(before, c.told)
	c.told = max(c.told, now)
	return rose
}

// read returns -1 where the count is not to be had.
func (c *oomCounter) read() int64 {
	if c.file == nil {
		return -1
	}
	var buffer [1024]byte
	n, _ := c.file.ReadAt(buffer[:], 0)
	for _, line := range strings.Split(string(buffer[:n]), "\n") {
		if value, found := strings.CutPrefix(line, "oom_kill "); found {
			if count, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
				return count
			}
		}
	}
	return -1
}
