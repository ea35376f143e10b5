package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a group; zero fields are none.
type Limits struct {
	CPU    float64 // processors
	Memory int64   // bytes, swap included
	Nice   int     // the weight of its processor time beside that of other groups, as of a process with that niceness
}

// Group is the group of an attempt.
type Group struct {
	Folder *os.File // locked

	groups *Groups
	path   string
}

// period of the processor's quota, in µs: the kernel's own default.
const period = 100_000

// value is what is written to a file.
type value struct {
	file, text string
	may        bool // it may be missing
}

// values are those of limits, for groups with these controllers.
func (l Limits) values(controllers []string) (all []value) {
	if slices.Contains(controllers, "cpu") {
		if l.CPU > 0 {
			all = append(all, value{"cpu.max", fmt.Sprintf("%d %d", int64(math.Round(l.CPU*period)), period), false})
		}
		if l.Nice != 0 {
			all = append(all, value{"cpu.weight.nice", strconv.Itoa(l.Nice), true})
		}
	}
	if slices.Contains(controllers, "memory") && l.Memory > 0 {
		all = append(all,
			value{"memory.max", strconv.FormatInt(l.Memory, 10), false},
			value{"memory.swap.max", "0", true}, // where the kernel counts no swap, there is none to limit
			value{"memory.oom.group", "1", false})
	}
	return all
}

// Make makes a group with those limits for which there are controllers. Call Remove with it.
func (g *Groups) Make(l Limits) (*Group, error) {
	g.sweepLeft()
	path, folder, err := makeLocked(g.folder, attemptPrefix)
	if err != nil {
		return nil, err
	}
	group := &Group{Folder: folder, groups: g, path: path}
	if err := set(path, l.values(g.Controllers)); err != nil {
		group.Remove()
		return nil, err
	}
	return group, nil
}

func set(path string, values []value) error {
	for _, v := range values {
		if err := write(path, v.file, v.text); err != nil && !(v.may && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// Used is what the processes of a group have used; zero fields are unknown.
type Used struct {
	CPU    time.Duration
	Memory int64 // bytes, at most at one time
	Killed bool  // some were killed since they needed more memory than the group may have
}

// Used reads what was used so far.
func (g *Group) Used() (u Used) {
	u.CPU = time.Duration(g.number("cpu.stat", "usage_usec")) * time.Microsecond
	u.Memory = g.number("memory.peak", "")
	u.Killed = g.number("memory.events", "oom_kill") > 0
	return u
}

// number reads a number of a file, behind a word at the beginning of a line; 0 if it is not there.
func (g *Group) number(file, word string) int64 {
	text, _ := os.ReadFile(filepath.Join(g.path, file))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, word); ok && (word == "" || strings.HasPrefix(rest, " ")) {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// Kill kills all processes of the group, and waits until they are gone, a second at most. Kernels before 5.14 cannot do it.
func (g *Group) Kill() {
	_ = write(g.path, "cgroup.kill", "1")
	g.Await(time.Second)
}

// Await waits until no process is in the group, for some time at most.
func (g *Group) Await(most time.Duration) {
	looks := time.NewTicker(look)
	defer looks.Stop()
	for began := time.Now(); g.number("cgroup.events", "populated") != 0 && time.Since(began) < most; <-looks.C {
	}
}

// look is the interval at which a group is polled that is to become empty.
const look = 5 * time.Millisecond

// Remove removes the group. If processes are in it, it is removed when a later one is made or removed after their end.
func (g *Group) Remove() {
	g.groups.mu.Lock()
	if removeAll(g.path) != nil {
		g.groups.left = append(g.groups.left, g.path)
	}
	g.groups.mu.Unlock()
	_ = g.Folder.Close()
	g.groups.sweepLeft()
}

func (g *Groups) sweepLeft() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = slices.DeleteFunc(g.left, func(path string) bool { return removeAll(path) == nil })
}
