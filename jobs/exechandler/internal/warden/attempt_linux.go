package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

const (
	// margin is how much before the time by which everything must be gone it is killed.
	margin = 100 * time.Millisecond
	// looked is how often a group that was told to stop is looked at, searched how often all processes
	// are, at first; that takes some ten milliseconds where there are many.
	looked, searched, searchedLeast = 20 * time.Millisecond, 50 * time.Millisecond, time.Second
	// searchShare bounds how much of the time goes into searching while nobody has to be killed.
	searchShare = 5
	// hopeless is how long somebody may take to die of SIGKILL: he hangs in the kernel.
	hopeless = 10 * time.Second
)

// attempt is a command that was started, with what it has started.
type attempt struct {
	id     uint64
	leader int // process and group
	marks  [][]byte
	until  []boottime.Stamp
	grace  time.Duration

	ended  bool // the leader is
	status unix.WaitStatus

	why      Why // "": nobody has told it to stop
	killBy   boottime.Stamp
	killed   time.Duration // since when it is being killed; 0: it is not
	grouped  bool          // somebody of its group is left
	groups   map[int]bool  // numbers of groups and sessions that belong to it
	search   time.Duration // when all processes are to be searched next
	searches time.Duration // how long after that again
}

// left is the time until it must be gone; false if that is never.
func (a *attempt) left(clock func(bool) time.Duration) (time.Duration, bool) {
	if len(a.until) == 0 {
		return 0, false
	}
	left := a.until[0].Until(clock)
	for _, u := range a.until[1:] {
		left = max(left, u.Until(clock))
	}
	return left - margin, true
}

// mustDie reports whether its grace period is over.
func (a *attempt) mustDie(clock func(bool) time.Duration) bool {
	left, bound := a.left(clock)
	return bound && left <= 0 || a.killBy.Until(clock) <= 0
}

// owns reports whether a process that is not the leader belongs to a; branch is the warden's child
// that it descends from.
func (a *attempt) owns(p, branch entry, adopted bool) bool {
	return branch.pid == a.leader || p.group == a.leader || a.groups[p.group] || a.groups[p.session] ||
		adopted && (branch.group == a.leader || a.groups[branch.group] || a.groups[branch.session] || marked(branch.pid, a.marks))
}
