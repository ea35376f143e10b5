package why_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// runs opens tasks of the job.
func runs(f *ledger.JobFacts, state jobs.State, ids ...string) {
	for _, id := range ids {
		t := jobs.Task{ID: id, State: state}
		if state == jobs.StateRunning {
			t.Replica, t.StartedAt = "r2", at(-time.Minute)
		}
		f.Open = append(f.Open, t)
	}
	f.OpenN.N += len(ids)
}

// own are runs of the backfill that are open.
func own(o *wire.Order, ids ...string) {
	o.Backfill.OpenTasks, o.Backfill.Running = ids, len(ids)
}

// Each changes a backfill of ten due times of which three are made, or a run in an hour, where "run" begins the name.
var openOrders = map[string]struct {
	codes  string // in order
	change func(o *wire.Order, f *ledger.JobFacts, h *why.HereOfJob)
}{
	"free": {"ready", func(*wire.Order, *ledger.JobFacts, *why.HereOfJob) {}},
	"rate": {"rate", func(o *wire.Order, _ *ledger.JobFacts, _ *why.HereOfJob) { o.Backfill.Rate = rate("10/m") }},
	"its rate and nothing made": {"ready", func(o *wire.Order, _ *ledger.JobFacts, _ *why.HereOfJob) {
		o.Backfill.Rate, o.Backfill.Made = rate("10/m"), 0
	}},
	"suspended": {"ready", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) { f.Job.Override = new(true) }},
	"paused": {"paused", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Next.Pausing = ledger.Pause{Since: at(-time.Minute), By: "ann", Reason: "upgrade"}
	}},
	"another configuration": {"other_config", func(_ *wire.Order, _ *ledger.JobFacts, h *why.HereOfJob) { h.Differs = true }},
	"slot taken by another run": {"waits_for_slot", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		runs(f, jobs.StateRunning, "t1")
	}},
	"slot taken, and a run waits": {"waits_for_slot", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		runs(f, jobs.StateRunning, "t1")
		runs(f, jobs.StatePending, "t2")
	}},
	"slot taken with rate": {"waits_for_slot", func(o *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		o.Backfill.Rate = rate("10/m")
		runs(f, jobs.StateRunning, "t1")
	}},
	"one slot of three is kept": {"waits_for_slot", func(_ *wire.Order, f *ledger.JobFacts, h *why.HereOfJob) {
		h.Slots = 3
		runs(f, jobs.StateRunning, "t1", "t2")
	}},
	"two slots of three are free": {"ready", func(_ *wire.Order, f *ledger.JobFacts, h *why.HereOfJob) {
		h.Slots = 3
		runs(f, jobs.StateRunning, "t1")
	}},
	"no slots": {"ready", func(_ *wire.Order, f *ledger.JobFacts, h *why.HereOfJob) {
		h.Policy = jobs.Allow
		f.BusyUntil = at(time.Hour)
		runs(f, jobs.StateRunning, "t1")
	}},
	"its own slot, and max_running is 3": {"waits_for_slot", func(o *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		o.Backfill.MaxRunning = 3
		own(o, "t1")
		runs(f, jobs.StateRunning, "t1")
	}},
	"its own run": {"max_running", func(o *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		own(o, "t1")
		runs(f, jobs.StateRunning, "t1")
	}},
	"its own run is pending": {"max_running pool_paused", func(o *wire.Order, f *ledger.JobFacts, h *why.HereOfJob) {
		own(o, "t1")
		runs(f, jobs.StatePending, "t1")
		h.Task = []wire.Cause{{Code: reason.PoolPaused, Message: "pool mail is paused"}}
	}},
	"its last runs": {"max_running", func(o *wire.Order, f *ledger.JobFacts, h *why.HereOfJob) {
		h.Policy, o.Backfill.MaxRunning, o.Backfill.Left = jobs.Allow, 5, 0
		own(o, "t1", "t2")
		runs(f, jobs.StateRunning, "t1", "t2")
	}},
	"its own run, of which nothing is known": {"max_running", func(o *wire.Order, _ *ledger.JobFacts, _ *why.HereOfJob) { own(o, "t1") }},
	"a due time is not decided":              {"undecided", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) { f.Job.NextAt = at(-time.Second) }},
	"a due time that starts later": {"ready", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Job.NextAt, f.Job.NextStartAt = at(-time.Second), at(time.Second)
	}},
	"a lost attempt may run": {"lost_may_run", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		f.BusyUntil, f.Lost = at(time.Hour), []ledger.LostTask{{ID: "t7", Replica: "r3", At: at(-time.Minute)}}
	}},
	"ended":          {"", func(o *wire.Order, _ *ledger.JobFacts, _ *why.HereOfJob) { o.State = wire.OrderDone }},
	"run in an hour": {"not_due", func(*wire.Order, *ledger.JobFacts, *why.HereOfJob) {}},
	"run in an hour, and paused": {"not_due paused", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Next.Pausing = ledger.Pause{Since: at(-time.Minute), By: "ann"}
	}},
	"run in an hour, and paused until then": {"not_due", func(_ *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		f.Next.Pausing = ledger.Pause{Since: at(-time.Minute), By: "ann", Until: at(time.Minute)}
	}},
	"run whose time has come": {"ready", func(o *wire.Order, f *ledger.JobFacts, _ *why.HereOfJob) {
		o.At = now
		runs(f, jobs.StateRunning, "t1")
	}},
}

// Each open order has its causes, in their order, and its sentences are those of testdata/orders.txt.
func TestOrders(t *testing.T) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(openOrders)) {
		f, h := hourly()
		o := wire.Order{ID: "o1", Job: "sync", State: wire.OrderOpen, Kind: wire.OrderBackfill, Backfill: &wire.Backfill{NewBackfill: wire.NewBackfill{MaxRunning: 1}, DueTimes: 10, Made: 3, Succeeded: 3, Left: 7}}
		if strings.HasPrefix(name, "run ") {
			o = wire.Order{ID: "o1", Job: "sync", State: wire.OrderOpen, Kind: wire.OrderRun, At: at(time.Hour)}
		}
		openOrders[name].change(&o, &f, &h)
		fmt.Fprintf(&text, "%s\n", name)
		var codes []string
		for _, c := range why.ExplainOrder(o, f, h) {
			codes = append(codes, string(c.Code))
			message := c.Message
			c.Message = ""
			fields, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "  %s: %s\n    %s\n", c.Code, message, fields)
		}
		if got := strings.Join(codes, " "); got != openOrders[name].codes {
			t.Errorf("%s: %s, want %s", name, got, openOrders[name].codes)
		}
	}
	const file = "testdata/orders.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text.String(), "\n")); diff != "" {
		t.Errorf("other sentences than in %s: run this test with -update, and read the difference (-want +got):\n%s", file, diff)
	}
}
