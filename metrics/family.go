package metrics

import "github.com/prometheus/client_golang/prometheus"

const namespace = "lockstep_"

type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// source is where a value is from, and so how to aggregate replicas.
type source string

const (
	replica source = "replica" // each replica counts its own: sum
	cluster source = "store"   // every replica read the same from the store: max
)

// family is one metric; docs/metrics.md is generated from them.
type family struct {
	name    string // without the namespace
	kind    kind
	from    source
	help    string // in one sentence
	labels  []string
	buckets []float64 // of a histogram
}

func (f *family) full() string { return namespace + f.name }

func (f *family) desc() *prometheus.Desc {
	return prometheus.NewDesc(f.full(), f.help, f.labels, nil)
}

func (f *family) counters() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.full(), Help: f.help}, f.labels)
}

func (f *family) histograms() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.full(), Help: f.help, Buckets: f.buckets}, f.labels)
}

// part is a section of docs/metrics.md.
type part []*family

func (p *part) add(f family) *family {
	*p = append(*p, &f)
	return &f
}

// All families; each one is named once, below.
var happens, asked, stands, stored part

// The buckets are coarse: each pool has a set of them.
var (
	lagBuckets  = []float64{0.01, 0.05, 0.25, 1, 2.5, 10, 60, 300, 1800}
	workBuckets = []float64{0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 14400}
	callBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}
)

// Work of replicas.
var (
	triggersDecided = happens.add(family{
		name: "triggers_decided_total", kind: counter, from: replica, labels: []string{"cause", "decision"},
		help: "Due times and manual runs that were decided, by cause (schedule, catch_up, manual, backfill) and decision (run, skipped, missed).",
	})
	triggersEnded = happens.add(family{
		name: "triggers_ended_total", kind: counter, from: replica, labels: []string{"outcome", "result"},
		help: "Due times and manual runs that ended, by outcome (ran, skipped, missed, lost) and the result of those that ran (succeeded, failed, cancelled); a lost one whose late result is recorded counts again.",
	})
	startLag = happens.add(family{
		name: "start_lag_seconds", kind: histogram, from: replica, labels: []string{"pool"}, buckets: lagBuckets,
		help: "Time from a task's due time to the call of its handler; a caught-up due time counts from its decision, a retry from the end of its backoff.",
	})
	attemptDuration = happens.add(family{
		name: "attempt_duration_seconds", kind: histogram, from: replica, labels: []string{"pool"}, buckets: workBuckets,
		help: "Duration of handlers.",
	})
	attempts = happens.add(family{
		name: "attempts_total", kind: counter, from: replica, labels: []string{"pool", "result"},
		help: "Attempts that ended, by result (succeeded, failed, cancelled, lost).",
	})
	tasksEnded = happens.add(family{
		name: "tasks_ended_total", kind: counter, from: replica, labels: []string{"pool", "state"},
		help: "Tasks that ended, by state (succeeded, failed, cancelled, lost); those cancelled before they started are not counted.",
	})
	retries = happens.add(family{
		name: "retries_total", kind: counter, from: replica, labels: []string{"pool", "after"},
		help: "Retries scheduled, by the result of the last attempt (failed, lost).",
	})
	tasksReaped = happens.add(family{
		name: "tasks_reaped_total", kind: counter, from: replica, labels: []string{"pool"},
		help: "Running tasks reaped after their owner's session expired.",
	})
	handedBack = happens.add(family{
		name: "tasks_handed_back_total", kind: counter, from: replica, labels: []string{"pool"},
		help: "Claimed tasks released unstarted: no worker was free in time, or the replica drained.",
	})
	fenced = happens.add(family{
		name: "results_fenced_total", kind: counter, from: replica,
		help: "Results rejected for a stale token: another replica owns the task.",
	})
	late = happens.add(family{
		name: "results_late_total", kind: counter, from: replica,
		help: "Late results that replaced a lost one: the replica was slow, not dead.",
	})
)

// Claims and locks.
var (
	tasksClaimed = asked.add(family{
		name: "tasks_claimed_total", kind: counter, from: replica, labels: []string{"pool"},
		help: "Tasks claimed; a due time that starts at once is not claimed.",
	})
	claimDuration = asked.add(family{
		name: "claim_duration_seconds", kind: histogram, from: replica, labels: []string{"backend", "result"}, buckets: callBuckets,
		help: "Duration of claims of a pool, with the wait for its lock, by lock backend and result (took, empty, full, paused, outdated, failed).",
	})
	lockDuration = asked.add(family{
		name: "lock_acquire_duration_seconds", kind: histogram, from: replica, labels: []string{"backend", "result"}, buckets: callBuckets,
		help: "Calls to acquire locks, by backend and result (granted: at least one key, busy: none, unknown: no answer, unavailable).",
	})
	lockKeys = asked.add(family{
		name: "lock_keys_total", kind: counter, from: replica, labels: []string{"backend", "result"},
		help: "Keys requested, by backend and result (granted, busy, unknown, unavailable).",
	})
	lockRenewal = asked.add(family{
		name: "lock_renew_duration_seconds", kind: histogram, from: replica, labels: []string{"backend", "result"}, buckets: callBuckets,
		help: "Renewals of the lock session, by backend and result (renewed, failed, lost).",
	})
	lockLost = asked.add(family{
		name: "lock_lost_total", kind: counter, from: replica, labels: []string{"backend", "reason"},
		help: "Leases that ended before their release, by backend and reason (lost: with their session, forced: by force).",
	})
	lockSessionsLost = asked.add(family{
		name: "lock_sessions_lost_total", kind: counter, from: replica, labels: []string{"backend"},
		help: "Sessions of the lock service that expired.",
	})
)

// State of a replica.
var (
	buildInfo = stands.add(family{
		name: "build_info", kind: gauge, from: replica, labels: []string{"version", "goversion"},
		help: "Always 1.",
	})
	ready = stands.add(family{
		name: "replica_ready", kind: gauge, from: replica,
		help: "1 while this replica starts new work.",
	})
	draining = stands.add(family{
		name: "replica_draining", kind: gauge, from: replica,
		help: "1 while this replica drains.",
	})
	storeUp = stands.add(family{
		name: "store_up", kind: gauge, from: replica,
		help: "1 while the store answers this replica.",
	})
	lockUp = stands.add(family{
		name: "lock_up", kind: gauge, from: replica, labels: []string{"backend"},
		help: "1 while the lock service answers this replica; backend store: the store's own rows.",
	})
	renewalAge = stands.add(family{
		name: "session_renewal_age_seconds", kind: gauge, from: replica,
		help: "Time since the store last acknowledged a heartbeat; beyond replica.session_ttl the session expires.",
	})
	sessionsLost = stands.add(family{
		name: "sessions_lost_total", kind: counter, from: replica,
		help: "Expired sessions of this replica.",
	})
	declaredDead = stands.add(family{
		name: "replicas_declared_dead_total", kind: counter, from: replica,
		help: "Sessions of other replicas that this one expired.",
	})
	clockSkew = stands.add(family{
		name: "clock_skew_seconds", kind: gauge, from: replica,
		help: "The database's clock minus this machine's, at the last heartbeat.",
	})
	clockRefused = stands.add(family{
		name: "clock_refused_total", kind: counter, from: replica,
		help: "Heartbeats at which the database's clock was off by more than replica.max_clock_skew: nothing was decided then.",
	})
	configNumber = stands.add(family{
		name: "configuration_number", kind: gauge, from: replica,
		help: "Number of this replica's configuration; of live ones the highest governs.",
	})
	configDrift = stands.add(family{
		name: "configuration_drift_jobs", kind: gauge, from: replica,
		help: "Jobs that this replica does not decide: a newer configuration governs and defines them differently, or only one of the two has them.",
	})
	configDriftPools = stands.add(family{
		name: "configuration_drift_pools", kind: gauge, from: replica,
		help: "Pools of which this replica does not claim all tasks: a newer configuration governs, with other handlers or without the pool.",
	})
	stripes = stands.add(family{
		name: "stripes", kind: gauge, from: replica,
		help: "Stripes that this replica owns, of 64.",
	})
	workers = stands.add(family{
		name: "workers", kind: gauge, from: replica,
		help: "Maximum of attempts at once in this replica.",
	})
	running = stands.add(family{
		name: "attempts_running", kind: gauge, from: replica, labels: []string{"pool"},
		help: "Running attempts in this replica.",
	})
	certificateExpiry = stands.add(family{
		name: "certificate_expiry_timestamp_seconds", kind: gauge, from: replica,
		help: "Expiry of the API's certificate, in Unix time; absent without TLS.",
	})
)

// State of the store.
var (
	replicas = stored.add(family{
		name: "replicas", kind: gauge, from: cluster, labels: []string{"state"},
		help: "Replicas by state (live, draining, dead: expired, its tasks are not reaped yet).",
	})
	poolPending = stored.add(family{
		name: "pool_pending_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Due tasks that wait for a worker.",
	})
	poolScheduled = stored.add(family{
		name: "pool_scheduled_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Tasks scheduled for later, or in backoff.",
	})
	poolRunning = stored.add(family{
		name: "pool_running_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Running tasks in all replicas.",
	})
	poolOldest = stored.add(family{
		name: "pool_oldest_pending_age_seconds", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Age of the oldest due task; 0 if there is none.",
	})
	poolUnrunnable = stored.add(family{
		name: "pool_unrunnable_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Due tasks that no live replica has a handler for: of an unknown kind, or in a pool without a configuration. Counted among the first 5,000 of the pool.",
	})
	poolPaused = stored.add(family{
		name: "pool_paused", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "1 while the pool is paused.",
	})
	jobCount = stored.add(family{
		name: "jobs", kind: gauge, from: cluster, labels: []string{"state"},
		help: "Jobs by state (active, suspended).",
	})
	lastSuccess = stored.add(family{
		name: "job_last_success_timestamp_seconds", kind: gauge, from: cluster, labels: []string{"name"},
		help: "Time of the job's last success; absent without one.",
	})
	deadline = stored.add(family{
		name: "job_deadline_timestamp_seconds", kind: gauge, from: cluster, labels: []string{"name"},
		help: "Time by which the job must have succeeded (see below); absent for suspended jobs and those without a schedule.",
	})
	failing = stored.add(family{
		name: "job_failing", kind: gauge, from: cluster, labels: []string{"name"},
		help: "1 from a failed, lost or missed end of a job to its next success; absent otherwise, and beyond 1,000 jobs.",
	})
	jobUnrunnable = stored.add(family{
		name: "job_unrunnable", kind: gauge, from: cluster, labels: []string{"name"},
		help: "1 for a job whose runs_on matches the labels of no live replica; absent otherwise, for suspended jobs, and beyond 1,000 jobs.",
	})
	jobsFailing = stored.add(family{
		name: "jobs_failing", kind: gauge, from: cluster,
		help: "Number of these jobs, without that bound.",
	})
	refreshed = stored.add(family{
		name: "refresh_timestamp_seconds", kind: gauge, from: replica,
		help: "Time of the last read of these metrics from the store; they are absent when it is too old.",
	})
	refreshDuration = stored.add(family{
		name: "refresh_duration_seconds", kind: gauge, from: replica,
		help: "Duration of that read.",
	})
	refreshFailures = stored.add(family{
		name: "refresh_failures_total", kind: counter, from: replica,
		help: "Failed reads.",
	})
)
