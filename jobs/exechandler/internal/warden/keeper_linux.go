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
	all    map[uint64]*attempt
	leader map[int]*attempt
	alone  bool

	listed table         // as they were
	at     time.Duration // at this time,
	took   time.Duration // and how long it took to see that
}

func newKeeper(tell func(report), log *slog.Logger, null int) *keeper {
	return &keeper{
		self: os.Getpid(), clock: boottime.Clock, tell: tell, log: log, null: null,
		all: map[uint64]*attempt{}, leader: map[int]*attempt{},
	}
}

// obey does what the replica wants. It closes the files.
func (k *keeper) obey(o order, files []int) {
	defer closeAll(files)
	if o.Start != nil {
		k.start(o.ID, *o.Start, files)
		return
	}
	k.collect() // who has ended by himself was not stopped
	a := k.all[o.ID]
	if a == nil {
		return // it has ended, and its report is under way
	}
	if len(o.Until) > 0 {
		a.until = o.Until
	}
	if o.KillBy != nil {
		k.stop(a, Ordered, *o.KillBy)
	}
}

// start starts a command, unless it is too late for that.
func (k *keeper) start(id uint64, c Command, files []int) {
	a := &attempt{id: id, marks: c.Marks, until: c.Until, grace: c.Grace, groups: map[int]bool{}}
	in := k.null
	if c.Stdin {
		in, files = files[0], files[1:]
	}
	out := files[0]
	left, bound := a.left(k.clock)
	if bound && left <= 0 || !c.StartBy.IsZero() && c.StartBy.Until(k.clock) <= 0 {
		k.tell(report{ID: id, Late: true})
		return
	}
	pid, err := syscall.ForkExec(c.Program, texts(c.Argv), &syscall.ProcAttr{
		Dir: c.Dir, Env: texts(c.Env), Files: []uintptr{uintptr(in), uintptr(out), uintptr(out)},
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
	a.leader = pid
	k.all[id], k.leader[pid] = a, a
	k.tell(report{ID: id, PID: pid})
}

// orphaned stops everything: nobody is left who wanted it.
func (k *keeper) orphaned() {
	k.alone = true
	if len(k.all) > 0 {
		k.log.Warn("the replica is gone; its commands are being stopped", "commands", len(k.all))
	}
	for _, a := range k.all {
		k.stop(a, Alone, k.in(a.grace))
	}
}

// in is the moment d from now, as long as the machine is awake.
func (k *keeper) in(d time.Duration) boottime.Stamp {
	return boottime.Stamp{Awake: true, At: k.clock(true) + d}
}

// stop tells an attempt to stop. Who has been told already can only be killed sooner.
func (k *keeper) stop(a *attempt, why Why, killBy boottime.Stamp) {
	if a.why != "" {
		if killBy.Until(k.clock) < a.killBy.Until(k.clock) {
			a.killBy = killBy
		}
		return
	}
	a.why, a.killBy = why, killBy
	strays := k.strays(a, k.list(looked)) // while their parents live
	_ = unix.Kill(-a.leader, unix.SIGTERM)
	for _, pid := range strays {
		_ = unix.Kill(pid, unix.SIGTERM)
	}
	a.searches = searched
	a.search = k.clock(true)
}

// list returns the processes of this machine as they were no longer ago than age.
func (k *keeper) list(age time.Duration) table {
	now := k.clock(true)
	if k.listed == nil || now-k.at > age {
		k.listed, k.at = listProcesses(), now
		k.took = k.clock(true) - now
	}
	return k.listed
}

// strays are those of an attempt that left its group.
func (k *keeper) strays(a *attempt, all table) (strays []int) {
	branches := all.below(k.self)
	for again := true; again; { // who shares a session with a stray is one
		again = false
		for pid, branch := range branches {
			p := all[pid]
			adopted := k.leader[branch] == nil
			if pid == a.leader || k.leader[branch] != nil && branch != a.leader || !a.owns(p, all[branch], adopted) {
				continue
			}
			if p.group != a.leader {
				strays = append(strays, pid)
			}
			delete(branches, pid)
			for _, number := range []int{p.group, p.session} {
				if number != k.self && !a.groups[number] {
					a.groups[number], again = true, true
				}
			}
		}
	}
	return strays
}

// look collects the dead, stops whose time is nearly over, kills who had his time to end, and
// reports who has ended. It returns how long nothing of this is to be done again, unless a process
// dies or an order comes.
func (k *keeper) look() time.Duration {
	k.collect()
	wait := time.Hour
	var stopping []*attempt
	for _, a := range k.all {
		if left, bound := a.left(k.clock); a.why == "" && bound {
			if left > a.grace {
				// The clock that counts may jump ahead of our timers when the machine wakes up.
				wait = min(wait, left-a.grace, 250*time.Millisecond)
				continue
			}
			k.stop(a, Overdue, k.in(left))
		}
		if a.why != "" {
			stopping = append(stopping, a)
			k.press(a)
		}
	}
	since := k.clock(true) // who is listed from now on was not started by somebody of a group that is empty now
	for _, a := range stopping {
		wait = min(wait, looked)
		if k.gone(a, since) {
			k.end(a)
		}
	}
	return wait
}

// press kills the group of an attempt whose grace period is over, and sees whether anybody is in it.
func (k *keeper) press(a *attempt) {
	if a.killed == 0 && a.mustDie(k.clock) {
		a.killed = k.clock(true)
		a.search, a.searches = a.killed, searched/2
	}
	if a.killed != 0 {
		_ = unix.Kill(-a.leader, unix.SIGKILL)
	}
	a.grouped = !a.ended || !errors.Is(unix.Kill(-a.leader, 0), unix.ESRCH)
}

// gone reports whether nothing is left of an attempt that was told to stop, as far as could be seen
// since a moment, and kills what left the group when the grace period is over.
func (k *keeper) gone(a *attempt, since time.Duration) bool {
	now := k.clock(true)
	switch {
	case now < a.search:
		return false
	case a.killed == 0 && a.grouped:
		return false
	case a.killed == 0 && k.at < since && now-k.at < searchShare*k.took:
		return false // many that end one after the other must not make this take a whole processor
	}
	a.search, a.searches = now+a.searches, min(2*a.searches, searchedLeast)
	strays := k.strays(a, k.list(now-since))
	if a.killed != 0 {
		for _, pid := range strays {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if now-a.killed > hopeless {
			k.log.Error("processes do not die of SIGKILL; they hang in the kernel and are left to it", "group", a.leader, "others", strays)
			return true
		}
	}
	return !a.grouped && len(strays) == 0
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
		if a := k.leader[pid]; a != nil {
			a.ended, a.status = true, status
			if a.why == "" {
				k.end(a)
			}
		}
	}
}

// end reports that an attempt has ended, and forgets it.
func (k *keeper) end(a *attempt) {
	delete(k.all, a.id)
	delete(k.leader, a.leader)
	if !a.ended {
		a.status = unix.WaitStatus(unix.SIGKILL)
	}
	k.tell(report{ID: a.id, Ended: true, Status: uint32(a.status), Why: a.why})
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
