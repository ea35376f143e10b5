package metrics

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// values are all samples but those of histograms, by name and labels as in the exposition.
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
	m.Claimed(ledger.ClaimTry{Pool: "p", LockBackend: "redis", Result: ledger.ClaimTook, Tasks: 3, Took: time.Millisecond})
	m.Claimed(ledger.ClaimTry{Pool: "p", LockBackend: "redis", Result: ledger.ClaimEmpty, Took: time.Millisecond})
	m.Started(task, 20*time.Millisecond)
	m.Ended(task, ledger.Result{State: jobs.StateFailed}, 2*time.Second)
	record := func(task jobs.Task, v ledger.Verdict, attempt jobs.State, f ledger.Finish, now jobs.State) {
		m.Recorded(task, ledger.Result{Verdict: v, State: attempt}, ledger.Finished{Finish: f, Task: jobs.Task{State: now}})
	}
	record(task, ledger.Again, jobs.StateFailed, ledger.Recorded, jobs.StatePending)
	record(task, ledger.Ended, jobs.StateSucceeded, ledger.Recorded, jobs.StateSucceeded)
	record(task, ledger.Ended, jobs.StateSucceeded, ledger.Fenced, jobs.StateRunning)
	record(task, ledger.Ended, jobs.StateFailed, ledger.Late, jobs.StateFailed)
	record(task, ledger.Died, jobs.StateLost, ledger.Recorded, jobs.StatePending)
	record(task, ledger.HandBack, "", ledger.Recorded, jobs.StatePending)
	record(task, ledger.Ended, jobs.StateSucceeded, ledger.Recorded, "") // before, and nobody knows what it is now
	record(jobs.Task{Pool: "p", Job: "j", RetryOf: "other"}, ledger.Ended, jobs.StateSucceeded, ledger.Recorded, jobs.StateSucceeded)
	record(jobs.Task{Pool: "p"}, ledger.Ended, jobs.StateCancelled, ledger.Recorded, jobs.StateCancelled)
	m.Reaped(ledger.Reaped{Task: jobs.Task{Pool: "p", Job: "j", State: jobs.StateLost}})
	m.Reaped(ledger.Reaped{Task: jobs.Task{Pool: "p", State: jobs.StatePending}})
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
		`lockstep_attempts_total{pool="p",result="lost"}`:                       "3",
		`lockstep_tasks_ended_total{pool="p",state="succeeded"}`:                "2",
		`lockstep_tasks_ended_total{pool="p",state="failed"}`:                   "1",
		`lockstep_tasks_ended_total{pool="p",state="cancelled"}`:                "1",
		`lockstep_tasks_ended_total{pool="p",state="lost"}`:                     "1",
		`lockstep_retries_total{after="failed",pool="p"}`:                       "1",
		`lockstep_retries_total{after="lost",pool="p"}`:                         "2",
		`lockstep_tasks_handed_back_total{pool="p"}`:                            "1",
		`lockstep_tasks_reaped_total{pool="p"}`:                                 "2",
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
	m.Asked("redis", locks.Asked{Unknown: 2})
	m.Asked("redis", locks.Asked{Unavailable: 1})
	m.Renewed("redis", time.Millisecond, nil)
	m.Renewed("redis", time.Millisecond, errors.New("reset"))
	m.Renewed("redis", time.Millisecond, locks.ErrLost)
	m.Lost("redis", 5, locks.ErrLost)
	m.Lost("redis", 1, locks.ErrForced)
	wantValues(t, m, map[string]string{
		`lockstep_lock_keys_total{backend="redis",result="granted"}`:                         "2",
		`lockstep_lock_keys_total{backend="redis",result="busy"}`:                            "2",
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

// scene is a store and a replica of which everything can be told.
func scene() *fake {
	yes, now := true, time.Now()
	return &fake{
		set: jobs.Set{
			Pools: map[string]jobs.Pool{"mail": {}},
			Jobs:  map[string]jobs.Job{"backup": {Schedule: "30 2 * * *", Timeout: time.Hour}, "off": {Schedule: "@hourly"}},
		},
		vitals: ledger.Vitals{
			Replica: "a", Now: now, Ready: true, StoreUp: true, Backend: "redis", RenewalAge: 2 * time.Second, SessionsLost: 3, Buried: 4,
			ClockSkew: -time.Second, ClockRefused: 5, Config: 6, Foreign: 7, Stripes: 8, Workers: 9, Running: map[string]int{"mail": 10},
		},
		pools: []ledger.PoolStatus{
			{Name: "default", Hash: "h"},
			{Name: "mail", Hash: "h", Paused: &yes, Pending: 11, Scheduled: 12, Running: 13, OldestPending: now.Add(-14 * time.Second)},
			{Name: "retired", Pending: 1},
		},
		standings: []ledger.JobStanding{
			{Name: "backup", Failing: true, LastSuccess: time.Unix(1000, 5), Unmet: time.Unix(2000, 0), NextAt: time.Unix(9000, 0)},
			{Name: "off", Suspended: &yes, NextAt: time.Unix(9000, 0)},
		},
		peers: []ledger.Peer{{}, {Dead: true}, {}, {Draining: true}},
	}
}

// run runs m on f for as long as the test takes.
func run(t *testing.T, m *Metrics, f *fake) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx, f) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestHowThingsStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scene()
		m := New(f, Options{Version: "1.2.3"})
		defer run(t, m, f)()
		time.Sleep(early + time.Millisecond)
		wantValues(t, m, map[string]string{
			`lockstep_replica_ready`:                                     "1",
			`lockstep_replica_draining`:                                  "0",
			`lockstep_store_up`:                                          "1",
			`lockstep_lock_up{backend="redis"}`:                          "0",
			`lockstep_session_renewal_age_seconds`:                       "2",
			`lockstep_sessions_lost_total`:                               "3",
			`lockstep_replicas_declared_dead_total`:                      "4",
			`lockstep_clock_skew_seconds`:                                "-1",
			`lockstep_clock_refused_total`:                               "5",
			`lockstep_configuration_number`:                              "6",
			`lockstep_configuration_drift_jobs`:                          "7",
			`lockstep_stripes`:                                           "8",
			`lockstep_workers`:                                           "9",
			`lockstep_attempts_running{pool="mail"}`:                     "10",
			`lockstep_attempts_running{pool="default"}`:                  "0",
			`lockstep_pool_pending_tasks{pool="mail"}`:                   "11",
			`lockstep_pool_scheduled_tasks{pool="mail"}`:                 "12",
			`lockstep_pool_running_tasks{pool="mail"}`:                   "13",
			`lockstep_pool_oldest_pending_age_seconds{pool="mail"}`:      "14",
			`lockstep_pool_oldest_pending_age_seconds{pool="default"}`:   "0",
			`lockstep_pool_paused{pool="mail"}`:                          "1",
			`lockstep_pool_pending_tasks{pool="retired"}`:                "",
			`lockstep_job_last_success_timestamp_seconds{name="backup"}`: "1000",
			`lockstep_job_last_success_timestamp_seconds{name="off"}`:    "",
			`lockstep_job_deadline_timestamp_seconds{name="backup"}`:     "5600",
			`lockstep_job_deadline_timestamp_seconds{name="off"}`:        "",
			`lockstep_job_failing{name="backup"}`:                        "1",
			`lockstep_job_failing{name="off"}`:                           "",
			`lockstep_jobs_failing`:                                      "1",
			`lockstep_jobs{state="active"}`:                              "1",
			`lockstep_jobs{state="suspended"}`:                           "1",
			`lockstep_replicas{state="live"}`:                            "2",
			`lockstep_replicas{state="draining"}`:                        "1",
			`lockstep_replicas{state="dead"}`:                            "1",
			`lockstep_tasks_ended_total{pool="mail",state="lost"}`:       "0",
			`lockstep_tasks_ended_total{pool="default",state="lost"}`:    "0",
		})
	})
}

// However many scrape, the store is read once in each interval, less often if that takes long, and
// not at all while nobody scrapes.
func TestTheStoreIsReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scene()
		reads := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			n := f.reads
			f.reads = 0
			return n
		}
		scrapes := func(n int, every time.Duration, m *Metrics) {
			for range n {
				time.Sleep(every)
				scrape(t, m.Handler(), false)
			}
		}
		m := New(f, Options{})
		defer run(t, m, f)()
		scrapes(120, time.Second, m)
		if n := reads(); n != 8 {
			t.Errorf("%d reads in 2 minutes, want 8", n)
		}
		f.mu.Lock()
		f.reading = func() error { time.Sleep(2 * time.Second); return nil }
		f.mu.Unlock()
		scrapes(601, time.Second, m)
		if n := reads(); n < 5 || n > 7 {
			t.Errorf("%d reads of 2 s each in 10 minutes, want 6", n)
		}
		f.mu.Lock()
		f.reading = func() error { time.Sleep(8 * time.Second); return nil }
		f.mu.Unlock()
		scrapes(601, time.Second, m)
		if n := reads(); n < 4 || n > 6 {
			t.Errorf("%d reads of 8 s each in 10 minutes, want 5", n)
		}
		f.mu.Lock()
		f.reading = nil
		f.mu.Unlock()
		time.Sleep(10 * time.Minute)
		reads()
		time.Sleep(time.Hour)
		if n := reads(); n != 0 {
			t.Errorf("%d reads while nobody scrapes", n)
		}
		wantValues(t, m, map[string]string{`lockstep_store_up`: "1"}) // whether it saw the read that it began is a race
		synctest.Wait()
		if n := reads(); n != 1 {
			t.Errorf("%d reads after the first scrape", n)
		}
		wantValues(t, m, map[string]string{`lockstep_replicas{state="live"}`: "2"})
	})
}

// While the store is away what it said last is told for a while, and then no more.
func TestTheStoreGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scene()
		m := New(f, Options{})
		defer run(t, m, f)()
		time.Sleep(2 * time.Second)
		began := values(t, m)[`lockstep_refresh_timestamp_seconds`]
		f.mu.Lock()
		f.reading = func() error { return jobs.ErrUnavailable }
		f.mu.Unlock()
		time.Sleep(20 * time.Second)
		wantValues(t, m, map[string]string{
			`lockstep_replicas{state="live"}`: "2", `lockstep_refresh_failures_total`: "1", `lockstep_refresh_timestamp_seconds`: began,
			`lockstep_pool_oldest_pending_age_seconds{pool="mail"}`: "14",
		})
		time.Sleep(45 * time.Second)
		wantValues(t, m, map[string]string{
			`lockstep_replicas{state="live"}`: "", `lockstep_refresh_failures_total`: "4", `lockstep_refresh_timestamp_seconds`: began,
			`lockstep_pool_oldest_pending_age_seconds{pool="mail"}`: "",
		})
		f.mu.Lock()
		f.reading = nil
		f.mu.Unlock()
		time.Sleep(15 * time.Second)
		wantValues(t, m, map[string]string{`lockstep_replicas{state="live"}`: "2", `lockstep_refresh_failures_total`: "4"})
	})
}

// Nobody is named who should not be: a thousand failing jobs are enough to look at.
func TestFailingJobsAreNamedUpToAThousand(t *testing.T) {
	m := large(t, true)
	named := 0
	all := values(t, m)
	for name := range all {
		if strings.HasPrefix(name, "lockstep_job_failing{") {
			named++
		}
	}
	if named != failingNamed || all["lockstep_jobs_failing"] != "10000" {
		t.Errorf("%d named of %s", named, all["lockstep_jobs_failing"])
	}
}

// One Metrics can be registered with registries of the program, beside another under other labels.
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

// full is a Metrics of which every metric is there.
func full(t *testing.T) *Metrics {
	t.Helper()
	f := scene()
	m := New(f, Options{Version: "1.2.3"})
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
