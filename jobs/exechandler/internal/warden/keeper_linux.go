package warden

import (
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// keeper is what a warden knows and does. It belongs to one goroutine on one thread: the kernel ties
// the death of the commands to that of the thread which started them.
type keeper struct {
	self   int // this process, which leads its session
	clock  func(awake bool) time.Duration
	tell   func(report)
	log    *slog.Logger
	null   int // open on /dev/null
	all    map[uint64]*charge
	leader map[int]*charge
	starts []incoming // to be obeyed one by one
	alone  bool

	listed table         // as they were
	at     time.Duration // at this time,
	took   time.Duration // and how long it took to see that
}

func newKeeper(tell func(report), log *slog.Logger, null int) *keeper {
	return &keeper{
		self: os.Getpid(), clock: boottime.Clock, tell: tell, log: log, null: null,
		all: map[uint64]*charge{}, leader: map[int]*charge{},
	}
}

// hear does what the replica wants, but for what it wants started: turn does that. The time of a command may move
// before it is started.
func (k *keeper) hear(orders []incoming) {
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
		k.obey(o.order, o.files)
	}
}

// moment is what the clocks showed at once.
type moment struct{ awake, asleep time.Duration }

func (m moment) clock(awake bool) time.Duration {
	if awake {
		return m.awake
	}
	return m.asleep
}

func (k *keeper) now() moment { return moment{k.clock(true), k.clock(false)} }

// turn starts one command, and then looks: starting takes milliseconds, and others must be stopped in time. All that
// had arrived at a moment has been heard: whose time was not over then may have got more since. turn returns how long
// nothing is to be done again, unless a process dies or an order comes.
func (k *keeper) turn(at moment) time.Duration {
	if len(k.starts) > 0 {
		first := k.starts[0]
		k.starts = k.starts[1:]
		if first.short {
			k.tell(report{ID: first.ID, Errno: int(unix.EMFILE)})
		} else {
			k.obey(first.order, first.files)
		}
	}
	wait := k.look(at)
	if len(k.starts) > 0 {
		return 0
	}
	return max(wait-(k.clock(true)-at.awake), 0) // this process may have stood still
}

// obey does what the replica wants. It closes the files.
func (k *keeper) obey(o order, files []int) {
	defer closeAll(files)
	if o.Start != nil {
		k.start(o.ID, *o.Start, files)
		return
	}
	k.collect() // who has ended by himself was not stopped
	c := k.all[o.ID]
	if c == nil {
		return // it has ended, and its report is under way
	}
	if len(o.Until) > 0 {
		c.until = o.Until
	}
	if o.KillBy != nil {
		asked := k.clock(true)
		if !o.Asked.IsZero() {
			asked = min(asked, o.Asked.At)
		}
		k.stop(c, Ordered, *o.KillBy, asked)
	}
}

// start starts a command, unless it is too late for that.
func (k *keeper) start(id uint64, command Command, files []int) {
	c := &charge{id: id, marks: command.Marks, until: command.Until, grace: command.Grace, groups: map[int]bool{}}
	in := k.null
	if command.Stdin {
		in, files = files[0], files[1:]
	}
	out := files[0]
	left, bound := c.left(k.clock)
	if bound && left <= 0 || !command.StartBy.IsZero() && command.StartBy.Until(k.clock) <= 0 {
		k.tell(report{ID: id, Late: true})
		return
	}
	pid, err := syscall.ForkExec(command.Program, texts(command.Argv), &syscall.ProcAttr{
		Dir: command.Dir, Env: texts(command.Env), Files: []uintptr{uintptr(in), uintptr(out), uintptr(out)},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		errno, ok := err.(syscall.Errno) //nolint:errorlint // it is what the kernel said
		if !ok {
			errno = syscall.EINVAL // a NUL in an argument
		}
		k.tell(report{ID: id, Errno: int(errno)})
		return
	}
	c.leader = pid
	k.all[id], k.leader[pid] = c, c
	k.tell(report{ID: id, PID: pid})
}

// orphaned stops everything: nobody is left who wanted it.
func (k *keeper) orphaned() {
	k.alone = true
	for _, s := range k.starts {
		closeAll(s.files)
	}
	k.starts = nil
	if len(k.all) > 0 {
		k.log.Warn("the replica is gone; its commands are being stopped", "commands", len(k.all))
	}
	since := k.clock(true)
	for _, c := range k.all {
		k.stop(c, Alone, k.in(c.grace), since)
	}
}

// in is the moment d from now, as long as the machine is awake.
func (k *keeper) in(d time.Duration) boottime.Stamp {
	return boottime.Stamp{Awake: true, At: k.clock(true) + d}
}

// stop tells a charge to stop, with all that it had started by the time since which that is wanted. Who has
// been told already can only be killed sooner.
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

// list returns the processes of this machine as they were at some time since a moment: many who are stopped at
// once are looked for once.
func (k *keeper) list(since time.Duration) table {
	if k.listed == nil || k.at < since {
		k.at = k.clock(true)
		k.listed = listProcesses()
		k.took = k.clock(true) - k.at
	}
	return k.listed
}

// strays are those of a charge that left its group.
func (k *keeper) strays(c *charge, all table) (strays []int) {
	branches := all.below(k.self)
	for again := true; again; { // who shares a session with a stray is one
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
	return strays
}

// look collects the dead, stops whose time was nearly over at a moment, kills who had his time to end by then, and
// reports who has ended. It returns how long after that moment nothing of this is to be done again, unless a process
// dies or an order comes.
func (k *keeper) look(at moment) time.Duration {
	k.collect()
	wait := time.Hour
	var stopping []*charge
	for _, c := range k.all {
		if left, bound := c.left(at.clock); c.why == "" && bound {
			if left > c.grace {
				// The clock that counts may jump ahead of our timers when the machine wakes up.
				wait = min(wait, left-c.grace, 250*time.Millisecond)
				continue
			}
			k.stop(c, Overdue, boottime.Stamp{Awake: true, At: at.awake + left}, at.awake)
		}
		if c.why != "" {
			stopping = append(stopping, c)
			k.press(c, at)
		}
	}
	since := k.clock(true) // who is listed from now on was not started by somebody of a group that is empty now
	for _, c := range stopping {
		wait = min(wait, looked)
		if k.gone(c, since) {
			k.end(c)
		}
	}
	return wait
}

// press kills the group of a charge whose grace period is over, and sees whether anybody is in it.
func (k *keeper) press(c *charge, at moment) {
	if c.killed == 0 && c.mustDie(at.clock) {
		c.killed = k.clock(true)
		c.search, c.searches = c.killed, searched/2
	}
	if c.killed != 0 {
		_ = unix.Kill(-c.leader, unix.SIGKILL)
	}
	c.grouped = !c.ended || !errors.Is(unix.Kill(-c.leader, 0), unix.ESRCH)
}

// gone reports whether nothing is left of a charge that was told to stop, as far as could be seen
// since a moment, and kills what left the group when the grace period is over.
func (k *keeper) gone(c *charge, since time.Duration) bool {
	now := k.clock(true)
	switch {
	case now < c.search:
		return false
	case c.killed == 0 && c.grouped:
		return false
	case c.killed == 0 && k.at < since && now-k.at < searchShare*k.took:
		return false // many that end one after the other must not make this take a whole processor
	}
	c.search, c.searches = now+c.searches, min(2*c.searches, searchedMost)
	strays := k.strays(c, k.list(since))
	if c.killed != 0 {
		for _, pid := range strays {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if now-c.killed > hopeless {
			k.log.Error("processes do not die of SIGKILL; they hang in the kernel and are left to it", "group", c.leader, "others", strays)
			return true
		}
	}
	return !c.grouped && len(strays) == 0
}

// collect waits for the dead: commands, and what was adopted.
func (k *keeper) collect() {
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

// end reports that a charge has ended, and forgets it.
func (k *keeper) end(c *charge) {
	delete(k.all, c.id)
	delete(k.leader, c.leader)
	if !c.ended {
		c.status = unix.WaitStatus(unix.SIGKILL)
	}
	k.tell(report{ID: c.id, Ended: true, Status: uint32(c.status), Why: c.why})
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
