package warden

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// keeper is the loop of a warden. It belongs to one goroutine on one thread: the kernel kills the commands when
// the thread that started them ends.
//
//	loop:  1. read all orders (receive): deadlines move, commands stop
//	       2. start one command (step)
//	       3. look: reap ended processes, SIGTERM before a deadline, SIGKILL after the grace period, report ends
//	       4. wait for an order, the end of a process, or the next deadline
type keeper struct {
	self   int // this process, which leads its session
	clock  func(awake bool) time.Duration
	tell   func(report)
	log    *slog.Logger
	null   int // open on /dev/null
	all    map[uint64]*charge
	leader map[int]*charge
	starts []incoming // to be started one by one
	alone  bool
	nicer  map[int]*launcher // by niceness

	listed table         // the processes, as listed
	at     time.Duration // at this time
	took   time.Duration // and how long listing took
}

func newKeeper(tell func(report), log *slog.Logger, null int) *keeper {
	return &keeper{
		self: os.Getpid(), clock: boottime.Clock, tell: tell, log: log, null: null,
		all: map[uint64]*charge{}, leader: map[int]*charge{}, nicer: map[int]*launcher{},
	}
}

// receive handles orders, but for starts: step handles those. The deadline of a command may move before it is
// started.
func (k *keeper) receive(orders []incoming) {
	for _, o := range orders {
		if o.Start != nil {
			k.starts = append(k.starts, o)
			continue
		}
		for _, s := range k.starts {
			if s.ID == o.ID && len(o.Until) > 0 {
				s.Start.Until = o.Until
			}
		}
		k.handle(o.order, o.files)
	}
}

// moment is a reading of both clocks at the same time.
type moment struct{ awake, asleep time.Duration }

func (m moment) clock(awake bool) time.Duration {
	if awake {
		return m.awake
	}
	return m.asleep
}

func (k *keeper) now() moment { return moment{k.clock(true), k.clock(false)} }

// step starts one command, and then looks: a start takes milliseconds, and others must be stopped in time. All
// orders that had arrived at the moment have been handled, so deadlines are up to date. step returns how long
// nothing is due, unless a process ends or an order arrives.
func (k *keeper) step(at moment) time.Duration {
	if len(k.starts) > 0 {
		first := k.starts[0]
		k.starts = k.starts[1:]
		if first.short {
			k.tell(report{ID: first.ID, Errno: int(unix.EMFILE)})
		} else {
			k.handle(first.order, first.files)
		}
	}
	wait := k.look(at)
	if len(k.starts) > 0 {
		return 0
	}
	return max(wait-(k.clock(true)-at.awake), 0) // this process may have been stopped
}

// handle handles one order. It closes the files.
func (k *keeper) handle(o order, files []int) {
	defer closeAll(files)
	if o.Start != nil {
		k.start(o.ID, *o.Start, files)
		return
	}
	k.reap() // a command that has ended by itself was not stopped
	c := k.all[o.ID]
	if c == nil {
		return // it has ended, and its report is under way
	}
	if len(o.Until) > 0 {
		c.until = o.Until
	}
	if o.Signal != 0 && !c.ended { // the number of its group is not used again yet
		_ = unix.Kill(-c.leader, unix.Signal(o.Signal))
	}
	if o.KillBy != nil {
		asked := k.clock(true)
		if !o.Asked.IsZero() {
			asked = min(asked, o.Asked.At)
		}
		k.stop(c, Ordered, *o.KillBy, asked)
	}
}

// start starts a command, unless its StartBy has passed.
func (k *keeper) start(id uint64, command Command, files []int) {
	c := &charge{id: id, marks: command.Marks, group: noGroup, failed: -1, until: command.Until, grace: command.Grace, groups: map[int]bool{}}
	left, bound := c.left(k.clock)
	if bound && left <= 0 || !command.StartBy.IsZero() && command.StartBy.Until(k.clock) <= 0 {
		k.tell(report{ID: id, Late: true})
		return
	}
	pid, err := k.launch(c, command, files)
	if err != nil {
		errno, ok := err.(syscall.Errno) //nolint:errorlint // it is what the kernel said
		if !ok {
			errno = syscall.EINVAL // a NUL in an argument
		}
		c.close()
		k.tell(report{ID: id, Errno: int(errno)})
		return
	}
	c.leader = pid
	k.all[id], k.leader[pid] = c, c
	k.tell(report{ID: id, PID: pid})
}

// orphaned stops all commands: the replica is gone.
func (k *keeper) orphaned() {
	k.alone = true
	for _, s := range k.starts {
		closeAll(s.files)
	}
	k.starts = nil
	if len(k.all) > 0 {
		k.log.Warn("the process that started the commands is gone, or gave up its warden; they are being stopped", "commands", len(k.all))
	}
	since := k.clock(true)
	for _, c := range k.all {
		k.stop(c, Alone, boottime.Stamp{Awake: true, At: since + c.grace}, since)
	}
}

// stop sends SIGTERM to a charge and its descendants that were started before since. A charge that was told
// before can only be killed sooner.
func (k *keeper) stop(c *charge, why Why, killBy boottime.Stamp, since time.Duration) {
	if c.why != "" {
		if killBy.Until(k.clock) < c.killBy.Until(k.clock) {
			c.killBy = killBy
		}
		return
	}
	c.why, c.killBy = why, killBy
	strays := k.strays(c, k.list(since)) // while their parents live
	_ = unix.Kill(-c.leader, unix.SIGTERM)
	for _, pid := range strays {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
	c.searches = searched
	c.search = k.clock(true)
}

// list returns the processes of the machine, as listed at some time after since: charges that are stopped at
// the same time share a listing.
func (k *keeper) list(since time.Duration) table {
	if k.listed == nil || k.at < since {
		k.at = k.clock(true)
		k.listed = listProcesses()
		k.took = k.clock(true) - k.at
	}
	return k.listed
}

// strays are the processes of a charge outside its group.
func (k *keeper) strays(c *charge, all table) (strays []int) {
	branches := all.below(k.self)
	for again := true; again; { // a process in the session of a stray is a stray
		again = false
		for pid, branch := range branches {
			p := all[pid]
			adopted := k.leader[branch] == nil
			if pid == c.leader || k.leader[branch] != nil && branch != c.leader || !c.owns(p, all[branch], adopted) {
				continue
			}
			if p.group != c.leader {
				strays = append(strays, pid)
			}
			delete(branches, pid)
			for _, number := range []int{p.group, p.session} {
				if number != k.self && !c.groups[number] {
					c.groups[number], again = true, true
				}
			}
		}
	}
	for _, pid := range c.group.processes() { // whatever they have left
		if p, ok := readProcess(pid); ok && p.group != c.leader && !slices.Contains(strays, pid) {
			strays = append(strays, pid)
		}
	}
	return strays
}

// look reaps ended processes, stops charges that had nearly reached their deadline at a moment, kills those
// whose grace period was over, and reports ends. It returns how long after that moment nothing of this is due,
// unless a process ends or an order arrives.
func (k *keeper) look(at moment) time.Duration {
	k.reap()
	wait := time.Hour
	var stopping []*charge
	for _, c := range k.all {
		if left, bound := c.left(at.clock); c.why == "" && bound {
			if left > c.grace {
				// The clock that counts may jump ahead of the timers when the machine wakes up.
				wait = min(wait, left-c.grace, 250*time.Millisecond)
				continue
			}
			k.stop(c, Overdue, boottime.Stamp{Awake: true, At: at.awake + left}, at.awake)
		}
		if c.why != "" {
			stopping = append(stopping, c)
			k.killGroup(c, at)
		}
	}
	since := k.clock(true) // processes listed from now on were not started by a group that is empty now
	for _, c := range stopping {
		wait = min(wait, looked)
		if k.gone(c, since) {
			k.end(c)
		}
	}
	return wait
}

// killGroup kills the group of a charge whose grace period is over, and checks whether it is empty.
func (k *keeper) killGroup(c *charge, at moment) {
	if c.killed == 0 && c.graceOver(at.clock) {
		c.killed = k.clock(true)
		c.search, c.searches = c.killed, searched/2
	}
	if c.killed != 0 {
		_ = unix.Kill(-c.leader, unix.SIGKILL)
		c.group.kill()
	}
	c.grouped = !c.ended || !errors.Is(unix.Kill(-c.leader, 0), unix.ESRCH) || !c.group.empty()
}

// gone reports whether nothing is left of a charge that was told to stop, in a listing after since, and kills
// strays when the grace period is over.
func (k *keeper) gone(c *charge, since time.Duration) bool {
	now := k.clock(true)
	switch {
	case now < c.search:
		return false
	case c.killed == 0 && c.grouped:
		return false
	case c.killed == 0 && k.at < since && now-k.at < searchShare*k.took:
		return false // many charges that end one after the other must not use a whole processor
	}
	c.search, c.searches = now+c.searches, min(2*c.searches, searchedMost)
	strays := k.strays(c, k.list(since))
	if c.killed != 0 {
		for _, pid := range strays {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if now-c.killed > killedFor {
			k.log.Error("processes did not end after SIGKILL; they are not waited for", "group", c.leader, "others", strays)
			return true
		}
	}
	return !c.grouped && len(strays) == 0
}

// reap reaps ended processes: commands and adopted ones.
func (k *keeper) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := k.leader[pid]; c != nil {
			c.ended, c.status = true, status
			if c.why == "" {
				k.end(c)
			}
		}
	}
}

// end reports that a charge has ended, and removes it.
func (k *keeper) end(c *charge) {
	delete(k.all, c.id)
	delete(k.leader, c.leader)
	if !c.ended {
		c.status = unix.WaitStatus(unix.SIGKILL)
	}
	k.tell(report{ID: c.id, Ended: true, Status: uint32(c.status), Why: c.why, Errno: c.failure()})
	c.close()
}

func closeAll(files []int) {
	for _, f := range files {
		_ = unix.Close(f)
	}
}

func texts(list [][]byte) []string {
	all := make([]string, len(list))
	for i, b := range list {
		all[i] = string(b)
	}
	return all
}
