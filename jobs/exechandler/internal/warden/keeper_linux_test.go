package warden

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// clocks are those of a machine that a test puts to sleep.
type clocks struct{ slept, waited time.Duration }

func (c *clocks) clock(awake bool) time.Duration {
	now := boottime.Clock(awake) + c.waited
	if !awake {
		now += c.slept
	}
	return now
}

// testKeeper is a keeper in the test's own process, and what it has reported of each command.
func testKeeper(t *testing.T) (*keeper, *clocks, map[uint64]report) {
	t.Helper()
	runtime.LockOSThread() // the test's goroutine ends with its thread, and that with the commands
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(null) })
	reports := map[uint64]report{}
	k := newKeeper(func(r report) { reports[r.ID] = r }, slog.New(slog.DiscardHandler), null)
	c := &clocks{}
	k.clock = c.clock
	return k, c, reports
}

// begin starts a command with the keeper.
func begin(t *testing.T, k *keeper, id uint64, c Command, argv ...string) {
	t.Helper()
	out, err := unix.Dup(k.null)
	if err != nil {
		t.Fatal(err)
	}
	c.Program = argv[0]
	for _, a := range argv {
		c.Argv = append(c.Argv, []byte(a))
	}
	k.handle(order{ID: id, Start: &c}, []int{out})
}

// lookUntil lets the keeper look until only the given processes run.
func lookUntil(t *testing.T, k *keeper, want ...uint64) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%v run, and no others", want), func() bool {
		k.look(k.now())
		return slices.Equal(slices.Sorted(maps.Keys(k.all)), want)
	})
}

// The machine sleeps for an hour. That ends the time of a command that may have been started
// meanwhile, and nothing where the others sleep, too.
func TestTheLidIsClosed(t *testing.T) {
	k, c, reports := testKeeper(t)
	asleep := func(d time.Duration) boottime.Stamp { return boottime.Stamp{At: c.clock(false) + d} }
	awake := func(d time.Duration) boottime.Stamp { return boottime.Stamp{Awake: true, At: c.clock(true) + d} }
	const grace = time.Second
	for id, until := range [][]boottime.Stamp{
		{asleep(10 * time.Second)}, {awake(10 * time.Second)}, {awake(10 * time.Second), asleep(10 * time.Second)}, {awake(grace / 2), asleep(2 * time.Hour)}, nil,
	} {
		begin(t, k, uint64(id), Command{Until: until, Grace: grace}, "/bin/sleep", "300")
	}
	k.look(k.now())
	lookUntil(t, k, 0, 1, 2, 3, 4)
	c.slept = time.Hour
	lookUntil(t, k, 1, 2, 3, 4)
	if r := reports[0]; r.Why != Overdue {
		t.Errorf("the first one: %+v", r)
	}
	c.slept = 3 * time.Hour
	lookUntil(t, k, 1, 2, 4)
	c.waited = 10*time.Second - grace/2
	lookUntil(t, k, 4)
	if r := reports[1]; r.Why != Overdue || unix.WaitStatus(r.Status).Signal() != unix.SIGTERM {
		t.Errorf("the second one: %+v", r)
	}
	k.orphaned()
	lookUntil(t, k)
	if r := reports[4]; r.Why != Alone {
		t.Errorf("the last one: %+v", r)
	}
}

func TestTimeMovesByOrderAlone(t *testing.T) {
	k, c, reports := testKeeper(t)
	in := func(d time.Duration) []boottime.Stamp { return []boottime.Stamp{{At: c.clock(false) + d}} }
	begin(t, k, 1, Command{Until: in(10 * time.Second), Grace: time.Second}, "/bin/sleep", "300")
	begin(t, k, 2, Command{Until: in(10 * time.Second), Grace: time.Second}, "/bin/sleep", "300")
	k.handle(order{ID: 1, Until: in(time.Minute)}, nil)
	k.handle(order{ID: 3, Until: in(time.Minute)}, nil) // unknown
	c.waited = 11 * time.Second
	lookUntil(t, k, 1)
	k.handle(order{ID: 1, KillBy: &boottime.Stamp{}}, nil)
	lookUntil(t, k)
	if reports[1].Why != Ordered || reports[2].Why != Overdue {
		t.Errorf("%+v", reports)
	}
}

// A command that was told to stop, with a grace period of an hour, is killed at its deadline.
func TestStoppedCommandEndsAtItsDeadline(t *testing.T) {
	k, c, reports := testKeeper(t)
	file := filepath.Join(t.TempDir(), "ignores")
	begin(t, k, 1, Command{Until: []boottime.Stamp{{At: c.clock(false) + time.Minute}}, Grace: time.Second},
		"/bin/sh", "-c", `trap "" TERM; touch "$0"; while :; do /bin/sleep 0.05; done`, file)
	await.Until(t, "the command has begun", func() bool { _, err := os.Stat(file); return err == nil })
	k.handle(order{ID: 1, KillBy: &boottime.Stamp{Awake: true, At: c.clock(true) + time.Hour}}, nil)
	lookUntil(t, k, 1)
	c.waited = time.Minute
	lookUntil(t, k)
	if r := reports[1]; r.Why != Ordered || unix.WaitStatus(r.Status).Signal() != unix.SIGKILL {
		t.Errorf("%+v", r)
	}
}

// Another charge was stopped a moment ago, before the present one had descendants.
func TestEachStopListsProcessesAgain(t *testing.T) {
	k, c, _ := testKeeper(t)
	before := listProcesses()
	file := filepath.Join(t.TempDir(), "socketBuffer")
	const child = `trap "echo term >>'$0'; exit" TERM; echo $$ >>"$0"; while [ -e "$0" ]; do sleep 0.05; done`
	begin(t, k, 1, Command{}, "/bin/sh", "-c", `/usr/bin/env -i /usr/bin/setsid /bin/sh -c "$1" "$0" & wait`, file, child)
	said := func() string { text, _ := os.ReadFile(file); return string(text) }
	await.Until(t, "the child has left the group", func() bool { return said() != "" })
	k.listed, k.at = before, k.clock(true)
	k.handle(order{ID: 1, KillBy: &boottime.Stamp{Awake: true, At: c.clock(true) + time.Hour}}, nil)
	await.Until(t, "it gets SIGTERM", func() bool { return strings.HasSuffix(said(), "term\n") })
	lookUntil(t, k)
}

// One listing serves all charges whose stop was ordered before it.
func TestStopsAtTheSameTimeShareAListing(t *testing.T) {
	k, c, _ := testKeeper(t)
	for id := range uint64(3) {
		begin(t, k, id, Command{}, "/bin/sleep", "300")
	}
	asked, killBy := boottime.Stamp{Awake: true, At: c.clock(true)}, boottime.Stamp{Awake: true, At: c.clock(true) + time.Hour}
	k.handle(order{ID: 0, KillBy: &killBy, Asked: asked}, nil)
	at := k.at
	k.handle(order{ID: 1, KillBy: &killBy, Asked: asked}, nil)
	if k.at != at {
		t.Error("the second one was looked for again")
	}
	k.handle(order{ID: 2, KillBy: &killBy, Asked: boottime.Stamp{Awake: true, At: c.clock(true)}}, nil)
	if k.at == at {
		t.Error("the third one was not looked for again")
	}
	lookUntil(t, k)
}

func TestNothingStartsTooLate(t *testing.T) {
	k, c, reports := testKeeper(t)
	file := filepath.Join(t.TempDir(), "started")
	before, after := boottime.Stamp{At: c.clock(false) - 1}, boottime.Stamp{At: c.clock(false) + time.Hour}
	begin(t, k, 1, Command{StartBy: before, Until: []boottime.Stamp{after}}, "/usr/bin/touch", file)
	begin(t, k, 2, Command{StartBy: after, Until: []boottime.Stamp{before}}, "/usr/bin/touch", file)
	lookUntil(t, k)
	if _, err := os.Stat(file); err == nil || !reports[1].Late || !reports[2].Late {
		t.Errorf("%v, %+v", err, reports)
	}
	begin(t, k, 3, Command{}, "/no/such/program")
	if unix.Errno(reports[3].Errno) != unix.ENOENT || len(k.all) != 0 {
		t.Errorf("%+v", reports[3])
	}
	begin(t, k, 4, Command{Env: [][]byte{[]byte("A=\x00")}}, "/bin/true")
	if unix.Errno(reports[4].Errno) != unix.EINVAL || len(k.all) != 0 {
		t.Errorf("%+v", reports[4])
	}
}

func TestBelow(t *testing.T) {
	all := table{}
	for _, p := range []entry{
		{pid: 1},
		{pid: 10, parent: 1},
		{pid: 20, parent: 10},
		{pid: 21, parent: 20},
		{pid: 22, parent: 21},
		{pid: 30, parent: 10},
		{pid: 40, parent: 1},
		{pid: 41, parent: 40},
		{pid: 50, parent: 99},
		{pid: 60, parent: 61},
		{pid: 61, parent: 60}, // read while it changed
	} {
		all[p.pid] = p
	}
	want := map[int]int{20: 20, 21: 20, 22: 20, 30: 30}
	if diff := cmp.Diff(want, all.below(10)); diff != "" {
		t.Errorf("below 10 (−want +got):\n%s", diff)
	}
	// The number of the parent was used again, for a descendant.
	around := table{10: {pid: 10, parent: 21}, 20: {pid: 20, parent: 10}, 21: {pid: 21, parent: 20}}
	if diff := cmp.Diff(map[int]int{20: 20, 21: 20}, around.below(10)); diff != "" {
		t.Errorf("below 10, whose parent is below it (−want +got):\n%s", diff)
	}
	self := listProcesses()[os.Getpid()]
	if self.parent != os.Getppid() || self.group != unix.Getpgrp() {
		t.Errorf("this process is %+v", self)
	}
	if !marked(os.Getpid(), [][]byte{[]byte("PATH=" + os.Getenv("PATH"))}) || marked(os.Getpid(), nil) || marked(os.Getpid(), [][]byte{[]byte("PATH=")}) {
		t.Error("variables are not seen as they are")
	}
}
