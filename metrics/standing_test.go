package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// scene is a store and a replica of which everything can be told.
func scene() *fake {
	yes, now, elsewhere, here := true, time.Now(), map[string]string{"zone": "b"}, map[string]string{"zone": "a"}
	return &fake{
		set: jobs.Set{
			Pools: map[string]jobs.Pool{"mail": {}},
			Jobs:  map[string]jobs.Job{"backup": {Schedule: "30 2 * * *", Timeout: time.Hour, RunsOn: elsewhere}, "off": {Schedule: "@hourly", RunsOn: elsewhere}, "here": {Schedule: "@hourly", RunsOn: here}},
		},
		vitals: wire.Vitals{
			Replica: "a", Now: now, Ready: true, StoreUp: true, Backend: "redis", RenewalAge: 2 * time.Second, SessionsExpired: 3, PeersExpired: 4,
			ClockSkew: -time.Second, ClockRefused: 5, Config: 6, Pinged: &yes, Foreign: 7, ForeignPools: 11, Stripes: 8, Workers: 9, Running: map[string]int{"mail": 10},
		},
		pools: []ledger.PoolStatus{
			{Name: "default", Hash: "h"},
			{Name: "mail", Hash: "h", Paused: &yes, Pending: 11, Scheduled: 12, Running: 13, OldestPending: now.Add(-14 * time.Second)},
			{Name: "retired", Pending: 1},
		},
		standings: []ledger.JobStanding{
			{Name: "backup", Failing: true, LastSuccess: time.Unix(1000, 5), Unmet: time.Unix(2000, 0), NextAt: time.Unix(9000, 0)},
			{Name: "off", Suspended: &yes, NextAt: time.Unix(9000, 0)},
			{Name: "here", NextAt: time.Unix(9000, 0)},
		},
		peers: []ledger.Peer{{}, {Dead: true, Member: ledger.Member{Labels: elsewhere}}, {Member: ledger.Member{Labels: here}}, {Draining: true}},
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

// A Metrics is of one replica: a second Run is refused at once, and what the first one shows stays.
func TestASecondRunIsRefused(t *testing.T) {
	for what, st := range map[string]Store{"with a store": scene().store(), "without": nil} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(st, Options{})
				defer run(t, m, scene())()
				synctest.Wait()
				other := scene()
				other.vitals.Workers, other.set.Pools = 99, map[string]jobs.Pool{"other": {}}
				for _, none := range []Replica{nil, (*fake)(nil)} {
					if err := m.Run(t.Context(), none); err == nil || errors.Is(err, ErrRan) || !strings.Contains(err.Error(), "the replica is nil") {
						t.Errorf("without a replica: %v", err)
					}
				}
				if err := m.Run(t.Context(), other); !errors.Is(err, ErrRan) {
					t.Error(err)
				}
				wantValues(t, m, map[string]string{`lockstep_workers`: "9", `lockstep_attempts_running{pool="mail"}`: "10", `lockstep_tasks_claimed_total{pool="other"}`: ""})
			})
		})
	}
}

func TestHowThingsStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scene()
		m := New(f.store(), Options{Version: "1.2.3"})
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
			`lockstep_configuration_drift_pools`:                         "11",
			`lockstep_stripes`:                                           "8",
			`lockstep_ping_up`:                                           "1",
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
			`lockstep_job_unrunnable{name="backup"}`:                     "1",
			`lockstep_job_unrunnable{name="off"}`:                        "",
			`lockstep_job_unrunnable{name="here"}`:                       "",
			`lockstep_jobs_failing`:                                      "1",
			`lockstep_certificate_expiry_timestamp_seconds`:              "",
			`lockstep_jobs{state="active"}`:                              "2",
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
		m := New(f.store(), Options{})
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
		m := New(f.store(), Options{})
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

// Once a replica has another configuration, what is shown is of the pools and the jobs of that: with a store, and without.
func TestAReloadIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scene()
		m, alone := New(f.store(), Options{}), New(nil, Options{})
		defer run(t, m, f)()
		defer run(t, alone, f)()
		time.Sleep(early + time.Millisecond)
		f.mu.Lock()
		backup := f.set.Jobs["backup"]
		backup.Timeout = 90 * time.Minute
		f.set = jobs.Set{Pools: map[string]jobs.Pool{"added": {}}, Jobs: map[string]jobs.Job{"backup": backup}}
		f.vitals.Config, f.vitals.Running = 7, map[string]int{"added": 3}
		f.mu.Unlock()
		want := map[string]string{
			`lockstep_attempts_running{pool="added"}`: "3", `lockstep_attempts_running{pool="mail"}`: "", `lockstep_tasks_ended_total{pool="added",state="lost"}`: "0",
		}
		wantValues(t, alone, want)
		wantValues(t, m, want)
		time.Sleep(time.Minute)
		wantValues(t, m, map[string]string{`lockstep_job_deadline_timestamp_seconds{name="backup"}`: "7400"})
	})
}
