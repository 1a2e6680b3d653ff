package proc

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

type entry struct {
	pid, parent, group, session int
	zombie                      bool
}

// processes lists /proc. A process may come and go meanwhile, so callers repeat until nothing is left.
func processes() []entry {
	directory, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := directory.Readdirnames(-1)
	directory.Close()
	var found []entry
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// The command's name, in brackets, may hold anything, brackets too.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 18 {
			continue
		}
		number := func(at int) int { value, _ := strconv.Atoi(string(fields[at])); return value }
		found = append(found, entry{
			pid: pid, parent: number(1), group: number(2), session: number(3),
			// A process whose first thread has ended looks like a zombie while its other threads go on.
			zombie: (fields[0][0] == 'Z' || fields[0][0] == 'X') && number(17) <= 1,
		})
	}
	return found
}

const (
	killRounds = 20
	// A killed process that is throttled, or has much memory to give back, takes its time to end.
	treeDeadline = 10 * time.Second
	allDeadline  = 30 * time.Second
	longestPause = 20
)

// KillTree kills a session, its process group and everything that descends from leader, until nothing is left. They
// are stopped first: a process that dies hands its children to PID 1, and from then on they are nobody's descendants.
func KillTree(leader int) {
	known := map[int]bool{leader: true}
	_ = unix.Kill(-leader, unix.SIGSTOP)
	for range killRounds {
		if !stopTree(leader, known) {
			break
		}
	}
	_ = unix.Kill(-leader, unix.SIGKILL)
	end := time.Now().Add(treeDeadline)
	for round := 0; time.Now().Before(end); round++ {
		alive := false
		for _, process := range processes() {
			if (known[process.pid] || process.session == leader) && !process.zombie {
				alive = true
				_ = unix.Kill(process.pid, unix.SIGKILL)
			}
		}
		if !alive {
			return
		}
		time.Sleep(time.Duration(min(round+1, longestPause)) * time.Millisecond)
	}
}

// stopTree stops what belongs to leader and is not known yet, and returns whether there was anything.
func stopTree(leader int, known map[int]bool) (found bool) {
	all := processes()
	for added := true; added; { // in any order, so again until nothing is added
		added = false
		for _, process := range all {
			if !known[process.pid] && (process.session == leader || known[process.parent]) {
				known[process.pid] = true
				added, found = true, true
				_ = unix.Kill(process.pid, unix.SIGSTOP)
			}
		}
	}
	return found
}

// KillAll kills every process but this one, PID 1. Where new ones come faster than rounds, the last resort is the
// kernel's own kill(-1), which is atomic. It returns the processes that could not be killed.
func KillAll() (killed int, left []int) {
	own := os.Getpid()
	seen := map[int]bool{}
	end := time.Now().Add(allDeadline)
	for round := 0; time.Now().Before(end); round++ {
		left = left[:0]
		if round >= killRounds && own == 1 {
			_ = unix.Kill(-1, unix.SIGKILL)
		}
		for _, process := range processes() {
			if process.pid == own || process.zombie {
				continue
			}
			err := unix.Kill(process.pid, unix.SIGKILL)
			if process.parent == 0 && err != nil {
				continue // put in from outside, with more rights than PID 1: nothing of the agent's
			}
			left = append(left, process.pid)
			if process.parent != 0 && !seen[process.pid] {
				seen[process.pid] = true
				killed++
			}
		}
		if len(left) == 0 {
			return killed, nil
		}
		time.Sleep(time.Duration(min(round+1, longestPause)) * time.Millisecond)
	}
	return killed, left
}
