package exechandler

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/jobs/exechandler/internal/cgroup"
)

// controllers are those of limits.
var controllers = []string{"cpu", "memory"}

// place has the control groups of this process's commands.
var place struct {
	sync.Mutex
	sought bool
	*cgroup.Groups
	why string
}

// groups returns the control groups of this process's commands, at the first call after it has made place for them; nil: there are none,
// for that reason.
func groups() (*cgroup.Groups, string) {
	place.Lock()
	defer place.Unlock()
	if place.sought {
		return place.Groups, place.why
	}
	place.sought = true
	folder, err := cgroup.Find()
	if err == nil {
		var warden []int
		current.Lock() // a warden that starts now is one of the processes to move
		defer current.Unlock()
		if current.Warden != nil && !current.Gone() {
			warden = append(warden, current.PID())
		}
		place.Groups, err = cgroup.Enable(folder, controllers, warden...)
	}
	if err == nil && !place.Clone && !wardens.Load() {
		place.Groups, err = nil, errors.New("this system refuses clone3, and no warden is there to do without it")
	}
	switch {
	case err != nil:
		place.why = err.Error()
	default:
		place.why = lacks(folder, place.Controllers)
	}
	return place.Groups, place.why
}

// lacks says which controllers are missing; "" if none is.
func lacks(folder string, has []string) string {
	if len(has) == len(controllers) {
		return ""
	}
	return fmt.Sprintf("%s has no other controllers than %s", folder, strings.Join(has, ", "))
}

// LimitsHeld says how this process holds [Limits]. The first call makes place for control groups, where they are delegated to this
// process, for which it may move to one below its own: call it before anything is started.
func LimitsHeld() Held { return heldBy(groups()) }

// LimitsExpected is LimitsHeld without changing anything: what does not show before it is done may still fail.
func LimitsExpected() Held {
	folder, err := cgroup.Find()
	if err != nil {
		return held(nil, err.Error())
	}
	has, err := cgroup.Available(folder, controllers)
	if err != nil {
		return held(nil, err.Error())
	}
	return held(has, lacks(folder, has))
}

func heldBy(g *cgroup.Groups, why string) Held {
	if g == nil {
		return held(nil, why)
	}
	return held(g.Controllers, why)
}

// held says how limits are held with these controllers.
func held(has []string, why string) (h Held) {
	h.Why = why
	if wardens.Load() {
		h.Memory = ByLimit
	}
	for _, c := range has {
		switch c {
		case "cpu":
			h.CPU = ByGroup
		case "memory":
			h.Memory = ByGroup
		}
	}
	return h
}

// limited are the limits of one attempt. A nil one has none.
type limited struct {
	Limits
	held  Held
	group *cgroup.Group // nil: none
}

// limit has the limits held for an attempt. Call release. An error says that a control group could not be made.
func (l Limits) limit() (*limited, error) {
	if l == (Limits{}) {
		return nil, nil
	}
	a := &limited{Limits: l}
	if l.CPU == 0 && l.Memory == 0 {
		return a, nil // the niceness alone needs no group
	}
	g, why := groups()
	a.held = heldBy(g, why)
	if !(a.CPU != 0 && a.held.CPU == ByGroup || a.Memory != 0 && a.held.Memory == ByGroup) {
		return a, nil
	}
	var err error
	if a.group, err = g.Make(cgroup.Limits{CPU: l.CPU, Memory: l.Memory, Nice: l.Nice}); err != nil {
		return nil, fmt.Errorf("no control group for the limits could be made: %w", err)
	}
	return a, nil
}

// space is the address space that each process may have, in bytes; 0: no limit.
func (a *limited) space() uint64 {
	if a == nil || a.held.Memory != ByLimit {
		return 0
	}
	return uint64(a.Memory)
}

// enters says that a process has to enter the control group after its start.
func (a *limited) enters() bool { return a.group != nil && !place.Clone }

// attributes are those that a process of the attempt is started with.
func (a *limited) attributes(attr *syscall.SysProcAttr) {
	if a != nil && a.group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(a.group.Folder.Fd())
	}
}

// kill kills all processes of the control group, if there is one.
func (a *limited) kill() {
	if a != nil && a.group != nil {
		a.group.Kill()
	}
}

// finish reads what the attempt has used, and writes to out what held; killed reports whether processes of it were killed at the limit of
// its memory.
func (a *limited) finish(out io.Writer, status syscall.WaitStatus) (killed bool) {
	if a == nil {
		return false
	}
	note := a.Limits.String()
	if missing := a.held.Missing(a.Limits); missing != "" {
		note += "; " + missing
	}
	if a.group != nil {
		used := a.group.Used()
		killed = used.Killed && status.Signaled() && status.Signal() == syscall.SIGKILL
		note += fmt.Sprintf("; used %v of processor time", used.CPU.Round(10*time.Millisecond))
		if used.Memory > 0 {
			note += fmt.Sprintf(", %.1f MiB of memory at most", float64(used.Memory)/(1<<20))
		}
	}
	fmt.Fprintf(out, "\n[limits: %s]\n", note)
	return killed
}

// release removes the control group. If the attempt was killed, its processes may need a moment to be gone.
func (a *limited) release(killed bool) {
	if a == nil || a.group == nil {
		return
	}
	if killed {
		a.group.Await(time.Second)
	}
	a.group.Remove()
}

// nicer has start start a process whose niceness is larger by the limit's: a process inherits that of the thread which starts it, and the
// thread ends with its goroutine.
func (a *limited) nicer(start func() error, _ func() (group int)) error {
	if a == nil || a.Nice == 0 {
		return start()
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		now, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 − niceness
		if err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-now+a.Nice)
		}
		if err == nil {
			err = start()
		}
		started <- err
	}()
	return <-started
}
