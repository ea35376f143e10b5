package metrics

import "github.com/prometheus/client_golang/prometheus"

const namespace = "lockstep_"

type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// source says where a value is from, and so how to put replicas together.
type source string

const (
	replica source = "replica" // each replica counts its own: sum
	cluster source = "store"   // every replica read the same from the store: max
)

// family is one metric as people see it; docs/metrics.md is made of them.
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

// part is some of the families, in the order in which people read them.
type part []*family

func (p *part) add(f family) *family {
	*p = append(*p, &f)
	return &f
}

// The parts are all families there are: each one is named once, below.
var happens, asked, stands, stored part

// The buckets are coarse, since there is a set of them for each pool.
var (
	lagBuckets  = []float64{0.01, 0.05, 0.25, 1, 2.5, 10, 60, 300, 1800}
	workBuckets = []float64{0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 14400}
	callBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}
)

// What replicas do.
var (
	triggersDecided = happens.add(family{
		name: "triggers_decided_total", kind: counter, from: replica, labels: []string{"cause", "decision"},
		help: "Due times and manual runs that were decided, by cause (schedule, catch_up, manual, backfill) and decision (run, skipped, missed).",
	})
	triggersEnded = happens.add(family{
		name: "triggers_ended_total", kind: counter, from: replica, labels: []string{"outcome", "result"},
		help: "Due times and manual runs that came to an end, by outcome (ran, skipped, missed, lost) and the result of those that ran (succeeded, failed, cancelled); a lost one whose own late result comes in counts again.",
	})
	startLag = happens.add(family{
		name: "start_lag_seconds", kind: histogram, from: replica, labels: []string{"pool"}, buckets: lagBuckets,
		help: "From when a task was due to when its handler was called; a due time that was caught up counts from its decision, a further attempt from the end of its backoff.",
	})
	attemptDuration = happens.add(family{
		name: "attempt_duration_seconds", kind: histogram, from: replica, labels: []string{"pool"}, buckets: workBuckets,
		help: "How long handlers took.",
	})
	attempts = happens.add(family{
		name: "attempts_total", kind: counter, from: replica, labels: []string{"pool", "result"},
		help: "Attempts that ended, by result (succeeded, failed, cancelled, lost).",
	})
	tasksEnded = happens.add(family{
		name: "tasks_ended_total", kind: counter, from: replica, labels: []string{"pool", "state"},
		help: "Tasks that reached their end, by state (succeeded, failed, cancelled, lost); those cancelled before they started are not counted.",
	})
	retries = happens.add(family{
		name: "retries_total", kind: counter, from: replica, labels: []string{"pool", "after"},
		help: "Tasks that wait for a further attempt, by what the last one ended with (failed, lost).",
	})
	tasksReaped = happens.add(family{
		name: "tasks_reaped_total", kind: counter, from: replica, labels: []string{"pool"},
		help: "Running tasks that were found with a dead owner.",
	})
	handedBack = happens.add(family{
		name: "tasks_handed_back_total", kind: counter, from: replica, labels: []string{"pool"},
		help: "Tasks that were claimed and given back unstarted: no worker was free in time, or the replica stopped.",
	})
	fenced = happens.add(family{
		name: "results_fenced_total", kind: counter, from: replica,
		help: "Results that were refused because another replica owns the task now.",
	})
	late = happens.add(family{
		name: "results_late_total", kind: counter, from: replica,
		help: "Results that replaced a lost one, once: the replica was slower than dead.",
	})
)

// What replicas ask of pools and locks.
var (
	tasksClaimed = asked.add(family{
		name: "tasks_claimed_total", kind: counter, from: replica, labels: []string{"pool"},
		help: "Tasks that were claimed; a due time that starts at once is never claimed.",
	})
	claimDuration = asked.add(family{
		name: "claim_duration_seconds", kind: histogram, from: replica, labels: []string{"backend", "result"}, buckets: callBuckets,
		help: "Tries to take tasks of a pool, waiting for its lock included, by lock backend and result (took, empty, full, paused, outdated, failed).",
	})
	lockDuration = asked.add(family{
		name: "lock_acquire_duration_seconds", kind: histogram, from: replica, labels: []string{"backend", "result"}, buckets: callBuckets,
		help: "Calls that asked for locks, by backend and result (granted: at least one key, busy: none, unknown: no answer, unavailable).",
	})
	lockKeys = asked.add(family{
		name: "lock_keys_total", kind: counter, from: replica, labels: []string{"backend", "result"},
		help: "Keys that were asked for, by backend and result (granted, busy, unknown, unavailable).",
	})
	lockRenewal = asked.add(family{
		name: "lock_renew_duration_seconds", kind: histogram, from: replica, labels: []string{"backend", "result"}, buckets: callBuckets,
		help: "Renewals of the lock session, by backend and result (renewed, failed, lost).",
	})
	lockLost = asked.add(family{
		name: "lock_lost_total", kind: counter, from: replica, labels: []string{"backend", "reason"},
		help: "Locks that ended before they were released, by backend and reason (lost: with their session, forced: taken away).",
	})
	lockSessionsLost = asked.add(family{
		name: "lock_sessions_lost_total", kind: counter, from: replica, labels: []string{"backend"},
		help: "Sessions at the lock service that ended before they were closed.",
	})
)

// How a replica stands.
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
		help: "1 while this replica stops.",
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
		help: "Since the store last acknowledged that this replica lives; beyond replica.session_ttl the others declare it dead.",
	})
	sessionsLost = stands.add(family{
		name: "sessions_lost_total", kind: counter, from: replica,
		help: "How often the others declared this replica dead.",
	})
	declaredDead = stands.add(family{
		name: "replicas_declared_dead_total", kind: counter, from: replica,
		help: "Other replicas that this one declared dead.",
	})
	clockSkew = stands.add(family{
		name: "clock_skew_seconds", kind: gauge, from: replica,
		help: "The database's clock less this machine's, at the last beat.",
	})
	clockRefused = stands.add(family{
		name: "clock_refused_total", kind: counter, from: replica,
		help: "Beats at which the database's clock was further from what was expected than replica.max_clock_skew: nothing was decided then.",
	})
	configNumber = stands.add(family{
		name: "configuration_number", kind: gauge, from: replica,
		help: "Number of the configuration that this replica loaded; of those that live, the highest governs.",
	})
	configDrift = stands.add(family{
		name: "configuration_drift_jobs", kind: gauge, from: replica,
		help: "Jobs that a newer configuration governs and has otherwise, or that only one of the two has: this replica leaves them alone.",
	})
	configDriftPools = stands.add(family{
		name: "configuration_drift_pools", kind: gauge, from: replica,
		help: "Pools of which this replica leaves tasks to those with a newer configuration, which has the handlers otherwise, or the pool alone.",
	})
	stripes = stands.add(family{
		name: "stripes", kind: gauge, from: replica,
		help: "Of the 64 parts of all jobs, those whose due times this replica looks after.",
	})
	workers = stands.add(family{
		name: "workers", kind: gauge, from: replica,
		help: "Attempts at once in this replica, at most.",
	})
	running = stands.add(family{
		name: "attempts_running", kind: gauge, from: replica, labels: []string{"pool"},
		help: "Attempts under way in this replica.",
	})
	certificateExpiry = stands.add(family{
		name: "certificate_expiry_timestamp_seconds", kind: gauge, from: replica,
		help: "When the certificate ends with which this replica serves its API, in Unix time; absent without TLS.",
	})
)

// What the store says.
var (
	replicas = stored.add(family{
		name: "replicas", kind: gauge, from: cluster, labels: []string{"state"},
		help: "Replicas by state (live, draining, dead: its tasks are about to be taken over).",
	})
	poolPending = stored.add(family{
		name: "pool_pending_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Tasks that are due and wait for a worker.",
	})
	poolScheduled = stored.add(family{
		name: "pool_scheduled_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Tasks that wait for their time, or for the end of a backoff.",
	})
	poolRunning = stored.add(family{
		name: "pool_running_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Tasks that run, in all replicas.",
	})
	poolOldest = stored.add(family{
		name: "pool_oldest_pending_age_seconds", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "For how long the oldest pending task has been due; 0 if there is none.",
	})
	poolUnrunnable = stored.add(family{
		name: "pool_unrunnable_tasks", kind: gauge, from: cluster, labels: []string{"pool"},
		help: "Of the tasks that are due, those that no live replica has a handler for: of an unknown kind, or in a pool that no configuration has any more. Counted among the first 5,000 of the pool.",
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
		help: "When the job last succeeded; absent for a job that never did.",
	})
	deadline = stored.add(family{
		name: "job_deadline_timestamp_seconds", kind: gauge, from: cluster, labels: []string{"name"},
		help: "By when the job must have succeeded (see below); absent for suspended jobs and for those without a schedule.",
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
		help: "How many jobs that is true of, all of them counted.",
	})
	refreshed = stored.add(family{
		name: "refresh_timestamp_seconds", kind: gauge, from: replica,
		help: "When this replica last read these metrics from the store; they are left out when that is too long ago.",
	})
	refreshDuration = stored.add(family{
		name: "refresh_duration_seconds", kind: gauge, from: replica,
		help: "How long it took to read them.",
	})
	refreshFailures = stored.add(family{
		name: "refresh_failures_total", kind: counter, from: replica,
		help: "How often that failed.",
	})
)
