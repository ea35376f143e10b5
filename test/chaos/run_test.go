//go:build linux

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/judge"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
)

// plan describes a run. cell, seed and dir are needed.
//
//	per window:  calm ──▶ strike ──▶ hold ──▶ heal ──▶ wait until the replicas are ready
type plan struct {
	cell    arena.Cell
	seed    uint64              // the same one makes the same choices, where time allows
	dir     string              // of the artifacts; made if it is not there
	faults  [][]nemesis.Nemesis // one window each; of one nemesis, or of two at the same time
	healthy time.Duration       // before each window; default 5 s
	first   time.Duration       // before the first window; default as before each
	after   time.Duration       // the last window, before clients stop; default as before a window
	window  time.Duration       // how long a fault lasts; default 20 s
	slack   time.Duration       // see history.Run
	minimum history.Minimum
	look    func(arena.Inventory) // before each window; may be nil
	bug     string                // of the build
	arena   arena.Options
}

const (
	afterStep    = 15 * time.Second // 5 s that were decided ahead, and the recovery time
	strikeLimit  = 30 * time.Second
	healLimit    = 60 * time.Second
	recoverLimit = 30 * time.Second // then the wait for replicas ends: the judge sees how long it took
	restLimit    = 45 * time.Second
	settleLimit  = 15 * time.Second
	enoughLimit  = 60 * time.Second
)

// run executes a plan, and leaves its artifacts in the folder. The test fails at once if the cell cannot be set
// up, and later if the run cannot be finished.
func run(t testing.TB, p plan) {
	t.Helper()
	p.healthy, p.window = cmp.Or(p.healthy, 5*time.Second), cmp.Or(p.window, 20*time.Second)
	if err := errors.Join(history.Unused(p.dir), os.MkdirAll(p.dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	opened := machine.begin(p.dir, "opening")
	a := arena.Open(t, p.cell, p.dir, p.arena)
	opened()
	record, err := a.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	record.Seed, record.Bug, record.Slack, record.Minimum, record.Began = p.seed, p.bug, p.slack, p.minimum, time.Now()
	record.Minimum.Faults = 0
	for _, faults := range p.faults {
		record.Minimum.Faults += len(faults)
	}
	stopWorking, stopProbing := start(t, a, p.seed)
	defer func() { stopWorking(); stopProbing() }()

	r := rand.New(rand.NewPCG(p.seed, 0))
	pause(t.Context(), cmp.Or(p.first, p.healthy))
	before, err := a.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := arena.ReadProcessors()
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for i, faults := range p.faults {
		pause(t.Context(), p.calm(i))
		if p.look != nil {
			n, err := a.Inventory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.look(n)
		}
		load, err := arena.Load()
		if err != nil {
			t.Error(err)
		}
		record.Load = max(record.Load, load)
		if err := window(t, a, r, faults, p.window); err != nil {
			t.Error(err)
		}
		now, err := arena.ReadProcessors()
		if err != nil {
			t.Error(err)
		}
		record.Stolen, record.StolenMost = now.StolenSince(first), max(record.StolenMost, now.StolenSince(last))
		last = now
	}
	pause(t.Context(), cmp.Or(p.after, p.calm(len(p.faults))))
	// On a busy machine the clients make their calls later, and more of them are answered too late.
	enough := func() bool { return a.Acknowledged() >= p.minimum.Tasks && (p.minimum.Tasks == 0 || !a.Unanswered()) }
	for limit := time.Now().Add(enoughLimit); !enough() && time.Now().Before(limit); {
		pause(t.Context(), time.Second)
	}

	stopWorking()
	record.Quiesced = time.Now()
	finish(t, a, p, before)
	record.Ended = time.Now()
	within(t, "read the tables", time.Minute, a.Export)
	within(t, "drain", time.Minute, a.Drain)
	stopProbing()
	if err := a.Err(); err != nil {
		t.Error(err)
	}
	if err := addWindows(a.Dir, machine.beside(p.dir, record.Began, record.Ended)...); err != nil {
		t.Error(err)
	}
	if record.Files, err = history.Count(p.dir); err != nil {
		t.Error(err)
	}
	if err := history.Write(p.dir, history.RunFile, record); err != nil {
		t.Fatal(err)
	}
}

// start starts clients, the programs beside the replicas, and probes. The returned functions end them; clients
// have resumed what they paused when stopWorking returns, and all others have ended when stopProbing does.
func start(t testing.TB, a *arena.Arena, seed uint64) (stopWorking, stopProbing func()) {
	working, stop := context.WithCancel(t.Context())
	probing, blind := context.WithCancel(t.Context())
	var clients, others sync.WaitGroup
	begin := func(all *sync.WaitGroup, what string, loop func() error) {
		all.Go(func() {
			if err := loop(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	begin(&clients, "clients", func() error { return a.Work(working, seed) })
	begin(&others, "probes", func() error { return a.Probe(probing) })
	begin(&others, "stale owners", func() error { return a.StaleOwners(working) })
	begin(&others, "holders", func() error { return a.Hold(working) })
	begin(&others, "workers", func() error { return a.Serve(probing) })
	begin(&others, "locks exec", func() error { return a.Exec(working) })
	return func() { stop(); clients.Wait() }, func() { blind(); others.Wait() }
}

// finish brings the cell to rest, and counts what is left.
func finish(t testing.TB, a *arena.Arena, p plan, before arena.Inventory) {
	t.Helper()
	within(t, "come to rest", restLimit, func(ctx context.Context) error {
		err := a.Rest(ctx)
		if err != nil && stepped(p.faults) {
			t.Log(err) // what was put off while the database's clock was ahead is due in an hour
			return nil
		}
		return err
	})
	within(t, "count what is left", settleLimit+recoverLimit, func(ctx context.Context) error {
		settling, cancel := context.WithTimeout(ctx, settleLimit)
		defer cancel()
		left, err := a.Settle(settling, before)
		if err != nil {
			return err
		}
		return history.Write(p.dir, history.LeftoversFile, left)
	})
}

// judged judges the run with its artifacts in dir; the caller handles violations. It uses all cores for a
// while, which would delay a run beside it.
func judged(t testing.TB, dir string) judge.Report {
	t.Helper()
	h, err := history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return judge.Judge(h)
}

// calm is the time without faults before the i-th window: after a step of the database's clock long enough to
// see that work goes on.
func (p plan) calm(i int) time.Duration {
	if i > 0 && stepped(p.faults[i-1:i]) {
		return max(p.healthy, afterStep)
	}
	return p.healthy
}

// stepped reports whether one of the faults steps the database's clock.
func stepped(faults [][]nemesis.Nemesis) bool {
	return slices.ContainsFunc(slices.Concat(faults...), func(n nemesis.Nemesis) bool { return slices.Contains(n.Kinds, history.StoreClock) })
}

// within fails the test if f does not succeed in time. The test continues: artifacts of a bad run are needed.
func within(t testing.TB, what string, limit time.Duration, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// window strikes, holds, heals, and waits until the replicas are ready again.
func window(t testing.TB, a *arena.Arena, r *rand.Rand, faults []nemesis.Nemesis, length time.Duration) error {
	windows, struck := make([]history.Window, len(faults)), make([]nemesis.Struck, len(faults))
	var names strings.Builder
	var calm []func()
	for i, n := range faults {
		w := &windows[i]
		w.Nemesis, w.Spares, w.Began = n.Name, n.Spares, time.Now()
		if len(faults) == 2 {
			w.Pair = faults[1-i].Name
		}
		if n.Machine {
			calm = append(calm, machine.begin(a.Dir, n.Name))
		}
		var err error
		ctx, cancel := context.WithTimeout(t.Context(), strikeLimit)
		struck[i], err = n.Strike(ctx, a, r)
		cancel()
		w.Struck = time.Now()
		w.Replicas, w.Kinds, w.Ahead = struck[i].Replicas, slices.Concat(n.Kinds, struck[i].Kinds), struck[i].Ahead
		if err != nil {
			w.Err = fmt.Sprintf("strike: %v", err)
		}
		names.WriteString(" " + n.Name)
	}
	t.Logf("%s: %s%s", time.Now().UTC().Format("15:04:05.000"), a.Cell, names.String())
	pause(t.Context(), holds(faults, length))
	for i := range windows {
		w := &windows[i]
		w.Healing = time.Now()
		if heal := struck[i].Heal; heal != nil {
			var err error
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), healLimit)
			w.Applied, w.Evidence, err = heal(ctx)
			cancel()
			if err != nil {
				w.Err = fmt.Sprintf("heal: %v", err)
			}
		}
		w.Healed = time.Now()
	}
	for _, end := range calm {
		end()
	}
	if err := addWindows(a.Dir, windows...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), recoverLimit)
	defer cancel()
	if err := a.WaitReady(ctx); err != nil {
		t.Logf("after%s: %v", names.String(), err)
	}
	return nil
}

func addWindows(dir string, windows ...history.Window) error {
	log, err := history.OpenLog[history.Window](dir, history.WindowsFile)
	if err != nil {
		return err
	}
	defer log.Close()
	for _, w := range windows {
		if err := log.Add(w); err != nil {
			return err
		}
	}
	return nil
}

// holds is how long a window lasts: as long as its nemeses want, otherwise length.
func holds(faults []nemesis.Nemesis, length time.Duration) (longest time.Duration) {
	for _, n := range faults {
		longest = max(longest, cmp.Or(n.Hold, length))
	}
	return longest
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
