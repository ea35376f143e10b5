package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

const (
	// margin is how long before the deadline the processes are killed.
	margin = 100 * time.Millisecond
	// looked is the interval at which a stopped group is polled.
	looked = 20 * time.Millisecond
	// searched is the first interval between searches of all processes; a search takes some ten milliseconds if
	// there are many.
	searched = 50 * time.Millisecond
	// searchedMost is the longest interval; each is twice the one before.
	searchedMost = time.Second
	// searchShare bounds the part of the time that goes into searching while no process has to be killed.
	searchShare = 5
	// killedFor is how long a process may take to end after SIGKILL: it hangs in the kernel.
	killedFor = 10 * time.Second
)

// charge is a command of the warden, with its descendants.
//
//	running ──▶ told to stop (SIGTERM) ──▶ grace period over (SIGKILL) ──▶ gone
//	   └──────▶ ended by itself: its descendants go on
type charge struct {
	id     uint64
	leader int // process and group
	marks  [][]byte
	group  group // its control group
	failed int   // the pipe by which its gate says why it could not be started; -1: none
	until  []boottime.Stamp
	grace  time.Duration

	ended  bool // the leader is
	status unix.WaitStatus

	why      Why // "": it was not told to stop
	killBy   boottime.Stamp
	killed   time.Duration // since when it is being killed; 0: it is not
	grouped  bool          // the group is not empty
	groups   map[int]bool  // groups and sessions that belong to it
	search   time.Duration // when all processes are to be searched next
	searches time.Duration // how long after that again
}

// left is the time until the deadline; false if there is none.
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

// graceOver reports whether its grace period is over.
func (c *charge) graceOver(clock func(bool) time.Duration) bool {
	left, bound := c.left(clock)
	return bound && left <= 0 || c.killBy.Until(clock) <= 0
}

// owns reports whether a process that is not the leader belongs to c; branch is the warden's child
// that it descends from.
func (c *charge) owns(p, branch entry, adopted bool) bool {
	return branch.pid == c.leader || p.group == c.leader || c.groups[p.group] || c.groups[p.session] ||
		adopted && (branch.group == c.leader || c.groups[branch.group] || c.groups[branch.session] || marked(branch.pid, c.marks))
}
