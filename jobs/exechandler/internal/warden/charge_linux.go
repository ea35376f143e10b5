package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

const (
	// margin is how much before the time by which everything must be gone it is killed.
	margin = 100 * time.Millisecond
	// looked is how often a group that was told to stop is looked at.
	looked = 20 * time.Millisecond
	// searched is how often all processes are searched, at first; that takes some ten milliseconds where
	// there are many.
	searched = 50 * time.Millisecond
	// searchedMost is the longest pause between two searches; each is twice the one before.
	searchedMost = time.Second
	// searchShare bounds how much of the time goes into searching while nobody has to be killed.
	searchShare = 5
	// hopeless is how long somebody may take to die of SIGKILL: he hangs in the kernel.
	hopeless = 10 * time.Second
)

// charge is a command that the warden has started, with what that has started.
type charge struct {
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
func (c *charge) left(clock func(bool) time.Duration) (time.Duration, bool) {
	if len(c.until) == 0 {
		return 0, false
	}
	left := c.until[0].Until(clock)
	for _, u := range c.until[1:] {
		left = max(left, u.Until(clock))
	}
	return left - margin, true
}

// mustDie reports whether its grace period is over.
func (c *charge) mustDie(clock func(bool) time.Duration) bool {
	left, bound := c.left(clock)
	return bound && left <= 0 || c.killBy.Until(clock) <= 0
}

// owns reports whether a process that is not the leader belongs to c; branch is the warden's child
// that it descends from.
func (c *charge) owns(p, branch entry, adopted bool) bool {
	return branch.pid == c.leader || p.group == c.leader || c.groups[p.group] || c.groups[p.session] ||
		adopted && (branch.group == c.leader || c.groups[branch.group] || c.groups[branch.session] || marked(branch.pid, c.marks))
}
