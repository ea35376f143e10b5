package metrics

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// values are all samples except histograms, by name and labels.
func values(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(scrape(t, m.Handler(), false).Body.String()) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if found && strings.HasPrefix(name, namespace) {
			all[name] = value
		}
	}
	return all
}

func wantValues(t *testing.T, m *Metrics, want map[string]string) {
	t.Helper()
	all, got := values(t, m), map[string]string{}
	for name := range want {
		if value, is := all[name]; is {
			got[name] = value
		}
	}
	for name, value := range want {
		if value == "" {
			delete(want, name) // must be absent
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatReplicasTellIsCounted(t *testing.T) {
	m := New(nil, Options{})
	task := jobs.Task{Pool: "p", Job: "j"}
	m.Decided(jobs.Trigger{Cause: jobs.CauseSchedule, Count: 1})
	m.Decided(jobs.Trigger{Cause: jobs.CauseCatchUp, Outcome: jobs.Missed, Count: 40})
	m.Decided(jobs.Trigger{Cause: jobs.CauseManual, Outcome: jobs.Skipped, Count: 1})
	m.Claimed(jobs.ClaimTry{Pool: "p", LockBackend: "redis", Result: "took", Tasks: 3, Took: time.Millisecond})
	m.Claimed(jobs.ClaimTry{Pool: "p", LockBackend: "redis", Result: "empty", Took: time.Millisecond})
	m.Started(task, 20*time.Millisecond)
	m.Ended(task, jobs.StateFailed, 2*time.Second)
	now := func(t jobs.Task, s jobs.State) jobs.Task { t.State = s; return t }
	m.Recorded(now(task, jobs.StatePending), jobs.StateFailed, false)
	m.Recorded(now(task, jobs.StateSucceeded), jobs.StateSucceeded, false)
	m.Fenced(now(task, jobs.StateRunning), jobs.StateSucceeded)
	m.Recorded(now(task, jobs.StateFailed), jobs.StateFailed, true)
	m.Recorded(now(task, jobs.StatePending), jobs.StateLost, false)
	m.HandedBack(now(task, jobs.StatePending))
	m.Recorded(now(task, jobs.StatePending), jobs.StatePending, false) // snoozed
	m.Recorded(task, jobs.StateSucceeded, false)                       // before, and the store does not say what it is now
	m.Recorded(jobs.Task{Pool: "p", Job: "j", RetryOf: "other", State: jobs.StateSucceeded}, jobs.StateSucceeded, false)
	m.Recorded(jobs.Task{Pool: "p", State: jobs.StateCancelled}, jobs.StateCancelled, false)
	m.Reaped(jobs.Task{Pool: "p", Job: "j", State: jobs.StateLost, ReasonCode: reason.Quarantined}, "b")
	m.Reaped(jobs.Task{Pool: "p", State: jobs.StatePending}, "b")
	wantValues(t, m, map[string]string{
		`lockstep_triggers_decided_total{cause="schedule",decision="run"}`:      "1",
		`lockstep_triggers_decided_total{cause="catch_up",decision="missed"}`:   "40",
		`lockstep_triggers_decided_total{cause="manual",decision="skipped"}`:    "1",
		`lockstep_triggers_ended_total{outcome="missed",result=""}`:             "40",
		`lockstep_triggers_ended_total{outcome="skipped",result=""}`:            "1",
		`lockstep_triggers_ended_total{outcome="ran",result="succeeded"}`:       "1",
		`lockstep_triggers_ended_total{outcome="ran",result="failed"}`:          "1",
		`lockstep_triggers_ended_total{outcome="ran",result="cancelled"}`:       "0",
		`lockstep_triggers_ended_total{outcome="lost",result=""}`:               "1",
		`lockstep_tasks_claimed_total{pool="p"}`:                                "3",
		`lockstep_claim_duration_seconds_count{backend="redis",result="took"}`:  "1",
		`lockstep_claim_duration_seconds_count{backend="redis",result="empty"}`: "1",
		`lockstep_start_lag_seconds_bucket{pool="p",le="0.01"}`:                 "0",
		`lockstep_start_lag_seconds_bucket{pool="p",le="0.05"}`:                 "1",
		`lockstep_attempt_duration_seconds_sum{pool="p"}`:                       "2",
		`lockstep_attempts_total{pool="p",result="failed"}`:                     "2",
		`lockstep_attempts_total{pool="p",result="succeeded"}`:                  "3",
		`lockstep_attempts_total{pool="p",result="cancelled"}`:                  "1",
		`lockstep_attempts_total{pool="p",result="snoozed"}`:                    "1",
		`lockstep_attempts_total{pool="p",result="lost"}`:                       "3",
		`lockstep_tasks_ended_total{pool="p",state="succeeded"}`:                "2",
		`lockstep_tasks_ended_total{pool="p",state="failed"}`:                   "1",
		`lockstep_tasks_ended_total{pool="p",state="cancelled"}`:                "1",
		`lockstep_tasks_ended_total{pool="p",state="lost"}`:                     "1",
		`lockstep_retries_total{after="failed",pool="p"}`:                       "1",
		`lockstep_retries_total{after="lost",pool="p"}`:                         "2",
		`lockstep_tasks_handed_back_total{pool="p"}`:                            "1",
		`lockstep_tasks_reaped_total{pool="p"}`:                                 "2",
		`lockstep_tasks_quarantined_total{pool="p"}`:                            "1",
		`lockstep_results_fenced_total`:                                         "1",
		`lockstep_results_late_total`:                                           "1",
		`lockstep_store_up`:                                                     "", // nobody runs
		`lockstep_tasks_ended_total{pool="p",state=""}`:                         "",
	})
}

func TestWhatLocksTellIsCounted(t *testing.T) {
	m := New(nil, Options{})
	m.Asked("redis", locks.Asked{Granted: 2, Busy: 1, Took: time.Millisecond})
	m.Asked("redis", locks.Asked{Busy: 1})
	m.Asked("redis", locks.Asked{Busy: 1, Queued: 1})
	m.Asked("redis", locks.Asked{Unknown: 2})
	m.Asked("redis", locks.Asked{Unavailable: 1})
	m.Renewed("redis", time.Millisecond, nil)
	m.Renewed("redis", time.Millisecond, errors.New("reset"))
	m.Renewed("redis", time.Millisecond, locks.ErrLost)
	m.Lost("redis", 5, locks.ErrLost)
	m.Lost("redis", 1, locks.ErrForced)
	for range 5 {
		m.Waiting("redis")
		m.Held("redis")
	}
	m.Waited("redis", 5*time.Second, true)
	m.Waited("redis", 2*time.Second, false)
	m.Freed("redis", 30*time.Second)
	wantValues(t, m, map[string]string{
		`lockstep_lock_waiting{backend="redis"}`:                                             "3",
		`lockstep_lock_held{backend="redis"}`:                                                "4",
		`lockstep_lock_wait_duration_seconds_sum{backend="redis",result="granted"}`:          "5",
		`lockstep_lock_wait_duration_seconds_sum{backend="redis",result="given_up"}`:         "2",
		`lockstep_lock_hold_duration_seconds_sum{backend="redis"}`:                           "30",
		`lockstep_lock_keys_total{backend="redis",result="granted"}`:                         "2",
		`lockstep_lock_keys_total{backend="redis",result="busy"}`:                            "3",
		`lockstep_lock_keys_total{backend="redis",result="queued"}`:                          "1",
		`lockstep_lock_acquire_duration_seconds_count{backend="redis",result="queued"}`:      "1",
		`lockstep_lock_keys_total{backend="redis",result="unknown"}`:                         "2",
		`lockstep_lock_keys_total{backend="redis",result="unavailable"}`:                     "1",
		`lockstep_lock_acquire_duration_seconds_count{backend="redis",result="granted"}`:     "1",
		`lockstep_lock_acquire_duration_seconds_count{backend="redis",result="busy"}`:        "1",
		`lockstep_lock_acquire_duration_seconds_count{backend="redis",result="unknown"}`:     "1",
		`lockstep_lock_acquire_duration_seconds_count{backend="redis",result="unavailable"}`: "1",
		`lockstep_lock_renew_duration_seconds_count{backend="redis",result="renewed"}`:       "1",
		`lockstep_lock_renew_duration_seconds_count{backend="redis",result="failed"}`:        "1",
		`lockstep_lock_renew_duration_seconds_count{backend="redis",result="lost"}`:          "1",
		`lockstep_lock_lost_total{backend="redis",reason="lost"}`:                            "5",
		`lockstep_lock_lost_total{backend="redis",reason="forced"}`:                          "1",
		`lockstep_lock_sessions_lost_total{backend="redis"}`:                                 "1",
	})
}

// A Metrics can be registered with a registry of the program, beside another one under other labels.
func TestRegister(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, name := range []string{"a", "b"} {
		m := New(nil, Options{})
		if err := prometheus.WrapRegistererWith(prometheus.Labels{"scheduler": name}, reg).Register(m); err != nil {
			t.Fatal(err)
		}
		m.Decided(jobs.Trigger{Cause: jobs.CauseSchedule, Count: 1})
	}
	if n, err := testutil.GatherAndCount(reg, "lockstep_triggers_ended_total"); err != nil || n != 12 {
		t.Errorf("%d, %v", n, err)
	}
}

// full is a Metrics with every metric.
func full(t *testing.T) *Metrics {
	t.Helper()
	f := scene()
	m := New(f.store(), Options{Version: "1.2.3"})
	m.Certificate(func() time.Time { return time.Unix(3000, 0) })
	m.Configuration(func() bool { return true })
	stop := run(t, m, f)
	t.Cleanup(stop)
	for m.page.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	everything(m, f.set)
	return m
}

func TestLint(t *testing.T) {
	problems, err := testutil.CollectAndLint(full(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
