package why_test

import (
	"encoding/json"
	"flag"
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

var update = flag.Bool("update", false, "write testdata/sentences.txt anew")

var now = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return now.Add(d) }

func rate(text string) jobs.Rate {
	r, err := jobs.ParseRate(text)
	if err != nil {
		panic(err)
	}
	return r
}

// live is a replica that runs so many tasks of the pool.
func live(id string, runs int, kinds ...string) ledger.LiveReplica {
	return ledger.LiveReplica{Peer: ledger.Peer{Member: ledger.Member{Replica: id, Workers: 64}, SeenAt: at(-time.Second)}, HasPool: true, Governs: true, Kinds: kinds, Running: runs, PoolRunning: runs}
}

// idle is a task that nothing holds up.
func idle() ledger.Facts {
	return ledger.Facts{
		At:   now,
		Task: jobs.Task{ID: "t", Pool: "mail", Kind: "welcome", State: jobs.StatePending, MaxAttempts: 11, RunAt: at(-time.Minute), CreatedAt: at(-time.Minute)},
		Pool: &ledger.PoolStatus{Name: "mail", Hash: "h"}, Live: []ledger.LiveReplica{live("r1", 2, "", "welcome")},
		Pace: ledger.Pace{Ends: 240, Since: at(-2 * time.Minute)},
	}
}

func keyed(f *ledger.Facts) {
	f.Task.Key, f.Pool.PerKey, f.Key = "acme", jobs.KeyLimits{MaxRunning: 2}, &ledger.KeyFacts{}
}

func locked(f *ledger.Facts, locks ...ledger.LockFacts) {
	f.Waiting, f.Locks, f.Task.Reason, f.Task.ReasonCode = ledger.WaitsForLocks, locks, "waits for lock db, held by backup", reason.WaitsForLock
}

func running(f *ledger.Facts) {
	f.Task.State, f.Task.Replica, f.Task.Attempt, f.Task.StartedAt = jobs.StateRunning, "r1", 2, at(-90*time.Second)
	f.MayRunUntil = at(8 * time.Second)
	f.Owner = &ledger.Peer{Member: ledger.Member{Replica: "r1", TTL: 10 * time.Second}, SeenAt: at(-1500 * time.Millisecond)}
}

func ended(f *ledger.Facts, state jobs.State) {
	f.Task.State, f.Task.Attempt, f.Task.Replica, f.Task.StartedAt, f.Task.FinishedAt = state, 2, "r1", at(-90*time.Second), at(-30*time.Second)
}

func tally(n int, ids ...string) (t ledger.Tally) {
	t.N = n
	for i, id := range ids {
		t.Tasks = append(t.Tasks, ledger.RunningTask{TaskID: id, Replica: "r1", Since: at(-time.Duration(i+1) * time.Second)})
	}
	return t
}

type situation struct {
	codes  string // in order
	change func(f *ledger.Facts, h *why.Here)
}

var situations = map[string]situation{
	"nothing":                  {"ready", func(*ledger.Facts, *why.Here) {}},
	"no pool":                  {"no_pool", func(f *ledger.Facts, _ *why.Here) { f.Pool.Hash = "" }},
	"no row of the pool":       {"no_pool", func(f *ledger.Facts, _ *why.Here) { f.Pool = nil }},
	"no replica":               {"no_live_replica", func(f *ledger.Facts, _ *why.Here) { f.Live = nil }},
	"replicas that drain":      {"no_live_replica", func(f *ledger.Facts, _ *why.Here) { f.Live[0].Draining = true }},
	"no replica with the pool": {"other_definition", func(f *ledger.Facts, _ *why.Here) { f.Live[0].HasPool = false }},
	"no kind":                  {"no_handler", func(f *ledger.Facts, _ *why.Here) { f.Task.Kind = "fax" }},
	"a task without a kind": {"no_handler", func(f *ledger.Facts, _ *why.Here) {
		f.Task.Kind, f.Live[0].Kinds = "", []string{"a", "b", "c", "d", "e", "f"}
	}},
	"no handler at all":        {"no_handler", func(f *ledger.Facts, _ *why.Here) { f.Live[0].Kinds = []string{} }},
	"any kind":                 {"ready", func(f *ledger.Facts, _ *why.Here) { f.Task.Kind, f.Live[0].Kinds = "fax", nil }},
	"a job's task has its own": {"ready", func(f *ledger.Facts, _ *why.Here) { f.Task.Job, f.Task.Kind = "backup", "fax" }},
	"no labels": {"no_replica", func(f *ledger.Facts, h *why.Here) {
		f.Task.Job, h.RunsOn, f.Live[0].Labels = "backup", map[string]string{"zone": "b", "disk": "ssd"}, map[string]string{"zone": "a"}
	}},
	"not due":                     {"not_due", func(f *ledger.Facts, _ *why.Here) { f.Waiting, f.Task.RunAt = ledger.WaitsForTime, at(time.Hour) }},
	"due at once by a fast clock": {"ready", func(f *ledger.Facts, _ *why.Here) { f.Task.RunAt, f.Task.CreatedAt = at(time.Second), at(time.Second) }},
	"a retry": {"backoff", func(f *ledger.Facts, _ *why.Here) {
		f.Waiting, f.Task.RunAt, f.Task.Attempt = ledger.WaitsForTime, at(4*time.Second), 2
		f.Last = &jobs.Attempt{Attempt: 2, State: jobs.StateFailed, Reason: "exit code 3", Error: "oops\nmore", Replica: "r1", FinishedAt: at(-time.Second), ExitCode: new(3)}
	}},
	"a retry of a lost attempt": {"backoff", func(f *ledger.Facts, _ *why.Here) {
		f.Waiting, f.Task.RunAt, f.Task.Attempt = ledger.WaitsForTime, at(4*time.Second), 12
		f.Last = &jobs.Attempt{Attempt: 12, State: jobs.StateLost, Error: "gone\nmore", FinishedAt: at(-time.Second)}
	}},
	"put off after a retry": {"snoozed", func(f *ledger.Facts, _ *why.Here) {
		f.Waiting, f.Task.RunAt, f.Task.Attempt, f.Task.ReasonCode, f.Task.Reason = ledger.WaitsForTime, at(4*time.Second), 1, reason.Snoozed, "no file yet"
		f.Last = &jobs.Attempt{Attempt: 1, State: jobs.StateFailed}
	}},
	"put off by a user after an attempt": {"not_due", func(f *ledger.Facts, _ *why.Here) {
		f.Waiting, f.Task.RunAt, f.Last = ledger.WaitsForTime, at(4*time.Second), &jobs.Attempt{Attempt: 1, State: jobs.StateFailed}
	}},
	"paused": {"pool_paused", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.Paused, f.Pool.PausedBy, f.Paused = new(true), "bob", at(-time.Hour)
	}},
	"paused since attempts failed": {"pool_paused", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.Paused, f.Pool.PausedBy, f.Pool.PauseReason = new(true), "pause_on", "50 of the last 100 attempts failed"
	}},
	"no worker": {"no_worker", func(f *ledger.Facts, _ *why.Here) { f.ByWorkers = true }},
	"no worker, and no replica that runs it": {"no_worker", func(f *ledger.Facts, _ *why.Here) {
		f.ByWorkers, f.Task.Kind, f.Live = true, "", []ledger.LiveReplica{live("r1", 64)}
	}},
	"a worker takes it": {"ready", func(f *ledger.Facts, _ *why.Here) {
		f.ByWorkers, f.Live, f.Workers = true, []ledger.LiveReplica{live("r1", 64)}, []ledger.Peer{{Member: ledger.Member{Replica: "python-1"}}}
	}},
	"the order changes": {"order_changed behind_others", func(f *ledger.Facts, _ *why.Here) { f.Moving, f.Ahead.N = true, 4 }},
	"the order has come, and not for all": {"order_changed", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Moving, f.Pool.Order, f.Key.Before, f.Key.First = true, jobs.OrderKey, ledger.Count{N: 1}, &jobs.Task{ID: "a", State: jobs.StatePending}
	}},
	"paused by nobody": {"pool_paused", func(f *ledger.Facts, _ *why.Here) { f.Pool.Paused = new(true) }},
	"resumed":          {"ready", func(f *ledger.Facts, _ *why.Here) { f.Pool.Paused, f.Pool.PausedBy = new(false), "bob" }},
	"max_running": {"max_running", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.MaxRunning, f.Running = 7, tally(7, "a", "b", "c", "d", "e", "f", "g")
	}},
	"max_running by an override": {"max_running", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.MaxRunning, f.Running, f.Pool.Override, f.Pool.LimitsBy = 2, tally(2, "a", "b"), &wire.PoolLimits{MaxRunning: new(2)}, "eve"
	}},
	"less than max_running": {"ready", func(f *ledger.Facts, _ *why.Here) { f.Pool.MaxRunning, f.Running = 3, tally(2, "a", "b") }},
	"rate": {"rate", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.Rate, f.Pool.Burst, f.Bucket = rate("1/s"), 1, ledger.Bucket(at(time.Second/2).UnixNano())
	}},
	"rate by an override": {"rate", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.Rate, f.Pool.Burst, f.Bucket, f.Pool.Override, f.Pool.LimitsBy = rate("1/s"), 1, ledger.Bucket(at(time.Second).UnixNano()), &wire.PoolLimits{Rate: new(rate("1/s"))}, "eve"
	}},
	"a full bucket": {"ready", func(f *ledger.Facts, _ *why.Here) { f.Pool.Rate, f.Pool.Burst = rate("1/s"), 1 }},
	"kind at max_running": {"waits_for_kind", func(f *ledger.Facts, _ *why.Here) {
		f.Kind = &ledger.KindFacts{Limits: ledger.Limits{MaxRunning: 1}, Running: tally(1, "a")}
	}},
	"kind at its rate": {"waits_for_kind", func(f *ledger.Facts, _ *why.Here) {
		f.Kind = &ledger.KindFacts{Limits: ledger.Limits{Rate: rate("1/m"), Burst: 1}, Bucket: ledger.Bucket(at(30 * time.Second).UnixNano())}
	}},
	"a kind with room": {"ready", func(f *ledger.Facts, _ *why.Here) {
		f.Kind = &ledger.KindFacts{Limits: ledger.Limits{MaxRunning: 2}, Running: tally(1, "a")}
	}},
	"key at max_running": {"waits_for_key", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Key.Running = tally(2, "a", "b")
	}},
	"key at its rate": {"waits_for_key", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Pool.PerKey, f.Key.Bucket = jobs.KeyLimits{Rate: rate("1/m"), Burst: 1}, ledger.Bucket(at(30*time.Second).UnixNano())
	}},
	"behind a running task of the key": {"waits_for_key", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Pool.Order, f.Key.Before = jobs.OrderKey, ledger.Count{N: 1}
		f.Key.First = &jobs.Task{ID: "a", State: jobs.StateRunning, Replica: "r1", StartedAt: at(-time.Second)}
	}},
	"behind a task of the key that is not due": {"waits_for_key", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Pool.Order, f.Key.Before = jobs.OrderKey, ledger.Count{N: 10_000, More: true}
		f.Key.First = &jobs.Task{ID: "a", State: jobs.StatePending, RunAt: at(time.Second), Reason: "no file", ReasonCode: reason.Snoozed}
	}},
	"behind a pending task of the key": {"waits_for_key", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Pool.Order, f.Key.Before = jobs.OrderKey, ledger.Count{N: 1234}
		f.Key.First = &jobs.Task{ID: "a", State: jobs.StatePending, RunAt: at(-time.Second), Reason: "waits for lock db, held by x", ReasonCode: reason.WaitsForLock}
	}},
	"first of its key": {"ready", func(f *ledger.Facts, _ *why.Here) { keyed(f); f.Pool.Order, f.Key.Turn = jobs.OrderKey, true }},
	"the turn of other keys": {"waits_for_key", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Pool.Fair, f.Key.Turn, f.Key.Before = &jobs.Fair{}, true, ledger.Count{N: 3}
	}},
	"the turn of other keys, first": {"waits_for_key", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Pool.Fair, f.Key.Turn, f.Key.Before = &jobs.Fair{}, true, ledger.Count{N: 1}
	}},
	"no limit is about no key": {"ready", func(f *ledger.Facts, _ *why.Here) {
		keyed(f)
		f.Task.Key, f.Key.Running = "", tally(2, "a", "b")
	}},
	"a lock": {"waits_for_lock", func(f *ledger.Facts, h *why.Here) {
		locked(f, ledger.LockFacts{Key: "user/db", Queued: "r2"})
		h.Holders = map[string][]wire.Lock{"user/db": {{Mode: "exclusive", Owner: "r2", Meta: "job backup", Since: at(-time.Minute)}}}
	}},
	"two locks": {"waits_for_lock", func(f *ledger.Facts, h *why.Here) {
		locked(f, ledger.LockFacts{Key: "user/db"}, ledger.LockFacts{Key: "user/uplink", Before: ledger.Count{N: 2}, First: "a"})
		h.Holders = map[string][]wire.Lock{"user/db": {{Mode: "shared", Owner: "web-1/42"}, {Mode: "shared", Owner: "web-2/42"}}, "user/uplink": {{Mode: "limited", Limit: 3, Session: "s1"}}}
	}},
	"behind one for a lock": {"waits_for_lock", func(f *ledger.Facts, _ *why.Here) {
		locked(f, ledger.LockFacts{Key: "user/db", Before: ledger.Count{N: 1}, First: "a"})
	}},
	"a lock with a holder that is not known": {"waits_for_lock", func(f *ledger.Facts, _ *why.Here) { locked(f, ledger.LockFacts{Key: "user/db"}) }},
	"a lock without a reason": {"waits_for_lock", func(f *ledger.Facts, _ *why.Here) {
		locked(f)
		f.Task.Reason = ""
	}},
	"the lock service is down": {"lock_service_down waits_for_lock", func(f *ledger.Facts, h *why.Here) {
		locked(f, ledger.LockFacts{Key: "user/db"})
		h.LockError = "connection refused"
	}},
	"the lock service is down for another": {"lock_service_down waits_for_lock", func(f *ledger.Facts, _ *why.Here) {
		locked(f, ledger.LockFacts{Key: "user/db"})
		f.Task.Reason = ledger.LocksAway
	}},
	"the lock service is back": {"waits_for_lock", func(f *ledger.Facts, h *why.Here) {
		locked(f, ledger.LockFacts{Key: "user/db"})
		f.Task.Reason = ledger.LocksAway
		h.Holders = map[string][]wire.Lock{"user/db": {{Mode: "exclusive", Owner: "r2"}}}
	}},
	"when_down: wait": {"lock_service_down", func(_ *ledger.Facts, h *why.Here) { h.LockWaits = "the lock service has not answered for 5s" }},
	"handed back": {"no_room", func(f *ledger.Facts, _ *why.Here) {
		f.Task.ReasonCode, f.Task.Reason = reason.NoRoom, "no descriptors on r1"
	}},
	"workers of the pool": {"workers_busy", func(f *ledger.Facts, h *why.Here) { h.Workers = 2 }},
	"workers of replicas": {"workers_busy", func(f *ledger.Facts, _ *why.Here) {
		f.Live = append(f.Live, live("r2", 64, "welcome"), live("r3", 0, "fax"))
		f.Live[0].Running = 64
	}},
	"one worker is free": {"ready", func(f *ledger.Facts, h *why.Here) { f.Live = append(f.Live, live("r2", 1, "welcome")); h.Workers = 2 }},
	"behind one":         {"behind_others", func(f *ledger.Facts, _ *why.Here) { f.Ahead.N = 1 }},
	"behind many":        {"behind_others", func(f *ledger.Facts, _ *why.Here) { f.Ahead = ledger.Count{N: 10_000, More: true} }},
	"no pace":            {"behind_others", func(f *ledger.Facts, _ *why.Here) { f.Ahead.N, f.Pace.Ends = 59, 0 }},
	"a rate for those before it": {"rate behind_others", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.Rate, f.Pool.Burst, f.Bucket, f.Ahead.N = rate("1/m"), 3, ledger.Bucket(at(3*time.Minute).UnixNano()), 4
	}},
	"a rate, and no pace": {"behind_others", func(f *ledger.Facts, _ *why.Here) {
		f.Pool.Rate, f.Pool.Burst, f.Ahead.N, f.Pace.Ends = rate("1/m"), 3, 4, 0
	}},
	"not due, and behind one": {"not_due", func(f *ledger.Facts, _ *why.Here) {
		f.Waiting, f.Task.RunAt, f.Ahead.N = ledger.WaitsForTime, at(time.Hour), 1
	}},
	"it expires first": {"behind_others", func(f *ledger.Facts, _ *why.Here) { f.Ahead.N, f.Task.ExpiresAt = 59, at(20*time.Second) }},
	"it expires later": {"behind_others", func(f *ledger.Facts, _ *why.Here) { f.Ahead.N, f.Task.ExpiresAt = 59, at(40*time.Second) }},
	"several": {"pool_paused lock_service_down waits_for_key max_running rate behind_others", func(f *ledger.Facts, h *why.Here) {
		keyed(f)
		f.Pool.Paused, h.LockWaits, f.Key.Running, f.Pool.MaxRunning, f.Running = new(true), "down", tally(2, "a", "b"), 2, tally(2, "a", "b")
		f.Pool.Rate, f.Pool.Burst, f.Bucket, f.Ahead.N = rate("1/s"), 1, ledger.Bucket(at(time.Second).UnixNano()), 4
	}},
	"running":          {"running", func(f *ledger.Facts, _ *why.Here) { running(f) }},
	"asked to stop":    {"cancel_requested running", func(f *ledger.Facts, _ *why.Here) { running(f); f.Cancel = "cancelled by ann" }},
	"asked by nobody":  {"cancel_requested running", func(f *ledger.Facts, _ *why.Here) { running(f); f.Cancel = "cancelled" }},
	"a silent replica": {"replica_silent running", func(f *ledger.Facts, _ *why.Here) { running(f); f.Owner.SeenAt = at(-11 * time.Second) }},
	"a dead replica":   {"replica_silent running", func(f *ledger.Facts, _ *why.Here) { running(f); f.Owner.Dead = true }},
	"no session":       {"replica_silent running", func(f *ledger.Facts, _ *why.Here) { running(f); f.Owner = nil }},
	"succeeded":        {"succeeded", func(f *ledger.Facts, _ *why.Here) { ended(f, jobs.StateSucceeded) }},
	"succeeded late": {"late", func(f *ledger.Facts, _ *why.Here) {
		ended(f, jobs.StateSucceeded)
		f.Task.ReasonCode, f.Task.Reason = reason.Late, "recorded late"
	}},
	"failed": {"exit_code", func(f *ledger.Facts, _ *why.Here) {
		ended(f, jobs.StateFailed)
		f.Task.ReasonCode, f.Task.Reason, f.Task.Error = reason.ExitCode, "exit code 3", "oops"
	}},
	"failed by an error": {"error", func(f *ledger.Facts, _ *why.Here) { ended(f, jobs.StateFailed); f.Task.Error = "no\nmore" }},
	"ended somehow":      {"ended", func(f *ledger.Facts, _ *why.Here) { ended(f, jobs.StateFailed) }},
	"lost": {"replica_died", func(f *ledger.Facts, _ *why.Here) {
		ended(f, jobs.StateLost)
		f.Task.ReasonCode, f.Task.Reason, f.MayRunUntil = reason.ReplicaDied, "r1 died", at(time.Minute)
	}},
	"cancelled": {"cancelled", func(f *ledger.Facts, _ *why.Here) {
		f.Task.State, f.Task.FinishedAt, f.Task.ReasonCode, f.Task.Reason = jobs.StateCancelled, at(-time.Second), reason.Cancelled, "cancelled by ann"
	}},
}

// Each situation has its causes, in their order, and its sentences and estimates are those of testdata/sentences.txt.
func TestSentences(t *testing.T) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		f, h := idle(), why.Here{Replica: "r1"}
		situations[name].change(&f, &h)
		y := why.Explain(f, h)
		var codes []string
		fmt.Fprintf(&text, "%s\n", name)
		for _, c := range y.Causes {
			codes = append(codes, string(c.Code))
			fmt.Fprintf(&text, "  %s: %s\n", c.Code, c.Message)
			fields, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var rest map[string]json.RawMessage
			if err := json.Unmarshal(fields, &rest); err != nil {
				t.Fatal(err)
			}
			delete(rest, "code")
			delete(rest, "message")
			for _, key := range slices.Sorted(maps.Keys(rest)) {
				fmt.Fprintf(&text, "    %s %s\n", key, rest[key])
			}
		}
		if got := strings.Join(codes, " "); got != situations[name].codes {
			t.Errorf("%s: %s, want %s", name, got, situations[name].codes)
		}
		switch s := y.Start; {
		case (s == nil) != (f.Task.State != jobs.StatePending):
			t.Errorf("%s: starts %+v", name, s)
		case s == nil:
		case s.At.IsZero() != (s.Unknown != "") || s.At.IsZero() != (s.Basis == ""):
			t.Errorf("%s: %+v", name, s)
		case s.At.IsZero():
			fmt.Fprintf(&text, "  starts: unknown, %s\n", s.Unknown)
		default:
			fmt.Fprintf(&text, "  starts: in %v%s, %s\n", s.At.Sub(now), map[bool]string{true: " at least"}[s.NotBefore], s.Basis)
		}
	}
	const file = "testdata/sentences.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text.String()); d != "" {
		t.Errorf("-update writes this: %s", d)
	}
}
