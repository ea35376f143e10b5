package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
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

// Plan is what a run does. Cell, Seed and Dir are needed.
type Plan struct {
	Cell    arena.Cell
	Seed    uint64              // the same one makes the same choices, where time allows
	Dir     string              // of the artifacts; made before
	Faults  [][]nemesis.Nemesis // one window each; of one nemesis, or of two at the same time
	Healthy time.Duration       // before each window; default 5 s
	After   time.Duration       // the last window, before clients stop; default as before a window
	Window  time.Duration       // how long a fault lasts; default 20 s
	Slack   time.Duration       // see history.Run
	Minimum history.Minimum
	Look    func(arena.Inventory) // before each window; may be nil
	Bug     string                // of the build
	Arena   arena.Options
}

const (
	afterStep    = 15 * time.Second // 5 s that were decided ahead, and the recovery time
	strikeLimit  = 30 * time.Second
	healLimit    = 60 * time.Second
	recoverLimit = 30 * time.Second // until replicas are waited for no longer: the judge sees how long it took
	restLimit    = 45 * time.Second
	settleLimit  = 15 * time.Second
)

// Run carries a plan out, and leaves what Judged judges in its folder. The test fails at once if the
// cell cannot be set up, and later if the run cannot be carried out to its end.
func Run(t testing.TB, p Plan) {
	t.Helper()
	p.Healthy, p.Window = cmp.Or(p.Healthy, 5*time.Second), cmp.Or(p.Window, 20*time.Second)
	a := arena.Open(t, p.Cell, p.Dir, p.Arena)
	run := a.Describe(t.Context())
	run.Seed, run.Bug, run.Slack, run.Minimum, run.Began = p.Seed, p.Bug, p.Slack, p.Minimum, time.Now()
	run.Minimum.Faults = 0
	for _, faults := range p.Faults {
		run.Minimum.Faults += len(faults)
	}

	probing, stopProbing := context.WithCancel(t.Context())
	working, stopWorking := context.WithCancel(t.Context())
	var together sync.WaitGroup
	begin := func(what string, loop func() error) {
		together.Go(func() {
			if err := loop(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	var clients sync.WaitGroup
	begin("probes", func() error { return a.Probe(probing) })
	begin("zombie", func() error { return a.Zombie(working) })
	begin("holders", func() error { return a.Hold(working) })
	clients.Go(func() {
		if err := a.Work(working, p.Seed); err != nil {
			t.Errorf("clients: %v", err)
		}
	})
	defer func() { stopWorking(); stopProbing(); clients.Wait(); together.Wait() }()

	r := rand.New(rand.NewPCG(p.Seed, 0))
	pause(t.Context(), p.Healthy)
	before, err := a.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, faults := range p.Faults {
		pause(t.Context(), p.calm(i))
		if p.Look != nil {
			n, err := a.Inventory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.Look(n)
		}
		if err := window(t, a, r, faults, p.Window); err != nil {
			t.Error(err)
		}
	}
	pause(t.Context(), cmp.Or(p.After, p.calm(len(p.Faults))))

	stopWorking()
	clients.Wait() // they take back what they paused
	run.Quiesced = time.Now()
	within(t, "come to rest", restLimit, func(ctx context.Context) error {
		err := a.Rest(ctx)
		if err != nil && stepped(p.Faults) {
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
		return history.Write(p.Dir, history.LeftoversFile, left)
	})
	run.Ended = time.Now()
	within(t, "read the tables", time.Minute, a.Export)
	within(t, "drain", time.Minute, a.Drain)
	stopProbing()
	together.Wait()
	if err := a.Err(); err != nil {
		t.Error(err)
	}
	if err := history.Write(p.Dir, history.RunFile, run); err != nil {
		t.Fatal(err)
	}
}

// Judged is the judgement of the run that left its artifacts in dir; violations are the caller's matter.
// It takes all cores for a while: a run beside it would be late for that.
func Judged(t testing.TB, dir string) judge.Report {
	t.Helper()
	h, err := history.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return judge.Judge(h)
}

// calm is how long nothing is broken before the i-th window: after a step of the database's clock long
// enough to see that work goes on.
func (p Plan) calm(i int) time.Duration {
	if i > 0 && stepped(p.Faults[i-1:i]) {
		return max(p.Healthy, afterStep)
	}
	return p.Healthy
}

// stepped reports whether one of the faults steps the database's clock.
func stepped(faults [][]nemesis.Nemesis) bool {
	return slices.ContainsFunc(slices.Concat(faults...), func(n nemesis.Nemesis) bool { return slices.Contains(n.Kinds, history.StoreClock) })
}

// within fails the test if f does not succeed in time. What comes after goes on: artifacts of a bad
// run are what one wants to see.
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
	windows, err := history.OpenLog[history.Window](a.Dir, history.WindowsFile)
	if err != nil {
		return err
	}
	defer windows.Close()
	open := make([]struct {
		history.Window
		nemesis.Struck
	}, len(faults))
	var names strings.Builder
	for i, n := range faults {
		w := &open[i]
		w.Nemesis, w.Spares, w.Began = n.Name, n.Spares, time.Now()
		if len(faults) == 2 {
			w.Pair = faults[1-i].Name
		}
		ctx, cancel := context.WithTimeout(t.Context(), strikeLimit)
		w.Struck, err = n.Strike(ctx, a, r)
		cancel()
		w.Window.Replicas, w.Window.Kinds = w.Struck.Replicas, slices.Concat(n.Kinds, w.Struck.Kinds)
		w.Window.Ahead = w.Struck.Ahead
		if err != nil {
			w.Err = fmt.Sprintf("strike: %v", err)
		}
		names.WriteString(" " + n.Name)
	}
	t.Logf("%s: %s%s", time.Now().UTC().Format("15:04:05.000"), a.Cell, names.String())
	pause(t.Context(), holds(faults, length))
	for i := range open {
		w := &open[i]
		if w.Heal != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), healLimit)
			w.Applied, w.Evidence, err = w.Heal(ctx)
			cancel()
			if err != nil {
				w.Err = fmt.Sprintf("heal: %v", err)
			}
		}
		w.Healed = time.Now()
		if err := windows.Add(w.Window); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), recoverLimit)
	defer cancel()
	if err := a.WaitReady(ctx); err != nil {
		t.Logf("after%s: %v", names.String(), err)
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
