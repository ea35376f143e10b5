package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestOrderCommands: a run is ordered for a time, waited for, shown by why and cancelled; a backfill is previewed, made, and found done.
func TestOrderCommands(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	order := func(id string) wire.Order {
		t.Helper()
		return decodeJSON[wire.Order](t, r.fine(t, "orders", "get", id, "-o", "json"))
	}
	id := strings.TrimSpace(r.fine(t, "jobs", "run", "hello", "--at", "2h"))
	if o := order(id); o.State != wire.OrderOpen || o.Job != "hello" || o.Kind != wire.OrderRun || time.Until(o.At) < time.Hour {
		t.Errorf("%+v", o)
	}
	if got := r.fine(t, "orders", "list", "--job", "hello", "--state", "open"); !strings.Contains(got, id) {
		t.Error(got)
	}
	if got := r.fine(t, "orders", "get", id); !strings.Contains(got, "waits:    its time comes in ") {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "get", "hello"); !strings.Contains(got, id+": run at "+order(id).At.Format("2006-01-02 15:04:05")+" UTC, by api:127.0.0.1") {
		t.Error(got)
	}
	if j := decodeJSON[wire.Job](t, r.fine(t, "jobs", "get", "hello", "-o", "json")); len(j.Orders) != 1 || j.Orders[0].ID != id {
		t.Errorf("%+v", j.Orders)
	}
	if got := r.fine(t, "orders", "cancel", id); !strings.Contains(got, "cancelled by api:127.0.0.1") || order(id).ReasonCode != reason.Cancelled {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "get", "hello"); strings.Contains(got, id) {
		t.Error(got)
	}
	if got := r.fine(t, "jobs", "run", "hello", "--at", "1s", "--wait"); !strings.Contains(got, "hello") {
		t.Error(got)
	}
	done := decodeJSON[[]wire.Order](t, r.fine(t, "orders", "list", "--state", "done", "-o", "json"))
	if len(done) != 1 || done[0].TaskID == "" {
		t.Fatalf("done are %+v", done)
	}
	if got := r.fine(t, "why", "hello", done[0].At.Format(time.RFC3339Nano)); !strings.Contains(got, "ordered") || !strings.Contains(got, "(order "+done[0].ID+"): it succeeded as task "+done[0].TaskID) {
		t.Error(got)
	}

	from := time.Now().AddDate(-1, -1, 0).UTC().Format(time.RFC3339) // hello is due once a year
	for _, n := range []string{"-1", "0", "101"} {
		if code, _, stderr := r.scheduler(t, "", "jobs", "backfill", "hello", "--from", from, "--max-running", n); code != exitUsage || !strings.Contains(stderr, "--max-running "+n+": must be 1 to 100") {
			t.Errorf("%s runs at once: %d, %s", n, code, stderr)
		}
	}
	got := r.fine(t, "jobs", "backfill", "hello", "--from", from)
	if !strings.Contains(got, "add --yes to do it") || len(decodeJSON[[]wire.Order](t, r.fine(t, "orders", "list", "--kind", "backfill", "-o", "json"))) != 0 {
		t.Error(got)
	}
	would := decodeJSON[wire.BackfillPreview](t, r.fine(t, "jobs", "backfill", "hello", "--from", from, "--yes", "--preview", "-o", "json"))
	if would.DueTimes == 0 {
		t.Fatalf("it would do %+v", would)
	}
	id = strings.TrimSpace(r.fine(t, "jobs", "backfill", "hello", "--from", would.Last.Add(-time.Second).Format(time.RFC3339), "--to", would.Last.Add(time.Second).Format(time.RFC3339), "--yes"))
	await.Until(t, "the backfill is done", func() bool { return order(id).State == wire.OrderDone })
	if b := order(id).Backfill; b.Made != 1 || b.Succeeded != 1 || b.Left != 0 {
		t.Errorf("%+v", b)
	}
	if got := r.fine(t, "why", "hello", would.Last.Format(time.RFC3339)); !strings.Contains(got, "made by a backfill") {
		t.Error(got)
	}
}

// --wait waits for all runs of a backfill, and says how far it has come; before it looks first, some may have been made.
func TestABackfillIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	from := fmt.Sprintf("%d-01-01T00:00:00Z", time.Now().UTC().Year()-1) // hello is due once a year, when that begins
	code, stdout, stderr := r.scheduler(t, "", "jobs", "backfill", "hello", "--from", from, "--yes", "--wait")
	if id := strings.TrimSpace(stdout); code != exitFine || strings.Contains(id, "\n") || !strings.Contains(stderr, " 0 of 2 left, 0 had run, 0 running, 2 succeeded") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	} else if o := decodeJSON[wire.Order](t, r.fine(t, "orders", "get", id, "-o", "json")); o.State != wire.OrderDone {
		t.Errorf("it is %s", o.State)
	}
	for _, flags := range [][]string{{"--wait"}, {"--wait", "--yes", "--preview"}} {
		code, stdout, stderr = r.scheduler(t, "", append([]string{"jobs", "backfill", "hello", "--again", "--from", from}, flags...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "--wait waits for runs, and a preview makes none") {
			t.Errorf("%q: exit code %d\n%s%s", flags, code, stdout, stderr)
		}
	}
}

// An open backfill says what it waits for: the slot that another run has, then its own run and what holds that up, then everything.
func TestABackfillSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	r.fine(t, "pools", "pause", "default")
	run := decodeJSON[wire.Run](t, r.fine(t, "jobs", "run", "hello", "-o", "json"))
	from := time.Now().AddDate(-2, -1, 0).UTC().Format(time.RFC3339) // hello is due once a year
	id := strings.TrimSpace(r.fine(t, "jobs", "backfill", "hello", "--from", from, "--yes"))
	waits := func(want ...string) {
		t.Helper()
		got := ""
		defer func() {
			if t.Failed() {
				t.Log(got)
			}
		}()
		await.Until(t, "it says that", func() bool {
			got = r.fine(t, "orders", "get", id)
			for _, text := range want {
				if !strings.Contains(got, text) {
					return false
				}
			}
			return true
		})
	}
	waits("it waits for the slot of job hello, taken by task "+run.Task.ID+", pending", "made:       0", "cancelled:  0")
	r.fine(t, "tasks", "cancel", run.Task.ID)
	waits("as many of its runs are open as may be at once, 1: task ", "pool default is paused", "made:       1")
	o := decodeJSON[wire.Order](t, r.fine(t, "orders", "get", id, "-o", "json"))
	if b := o.Backfill; len(o.Causes) != 2 || o.Causes[0].Code != reason.MaxRunning || o.Causes[1].Code != reason.PoolPaused || len(b.OpenTasks) != 1 || o.Causes[0].Tasks[0].ID != b.OpenTasks[0] {
		t.Errorf("%+v of %+v", o.Causes, b)
	}
	r.fine(t, "pause", "--reason", "upgrade")
	waits("everything is paused by ")
	if got := r.fine(t, "orders", "list", "--job", "hello"); !strings.Contains(got, " 0 had run, 1 running, 0 succeeded, 0 failed, 0 cancelled") {
		t.Error(got)
	}
}

// A job with more open orders than it is shown with names the command that has all of them, and a list has all counts of a backfill.
func TestJobsGetSaysThatThereAreMoreOrders(t *testing.T) {
	a := &app{now: time.Now}
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	b := &wire.Backfill{NewBackfill: wire.NewBackfill{From: at, To: at.Add(time.Hour)}, DueTimes: 12, Made: 9, Ran: 1, Running: 2, Succeeded: 3, Failed: 3, Cancelled: 1, Left: 2}
	for more, want := range map[bool]string{false: "", true: "open orders:  more: 'scheduler orders list --state open --job report' has all of them\n"} {
		var out strings.Builder
		if err := a.showJob(&out, wire.Job{Name: "report", Orders: []wire.Order{{ID: "o1", Kind: wire.OrderBackfill, Backfill: b}}, MoreOrders: more}); err != nil {
			t.Fatal(err)
		}
		const shown = "o1: backfill 2026-11-01 00:00:00 to 2026-11-01 01:00:00 UTC: 2 of 12 left, 1 had run, 2 running, 3 succeeded, 3 failed, 1 cancelled\n"
		if got := out.String(); !strings.Contains(got, shown) || !strings.HasSuffix(got, shown+want) && more || strings.Contains(got, "open orders:") != more {
			t.Errorf("more: %v\n%s", more, got)
		}
	}
}
