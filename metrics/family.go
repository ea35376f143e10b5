package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

const namespace = "lockstep_"

type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// family is one metric; docs/metrics.md is generated from them.
type family struct {
	name    string // without the namespace
	kind    kind
	help    string // in one sentence
	labels  []string
	buckets []float64                 // of a histogram
	cluster bool                      // every replica reads the same from the store: aggregate by max; else each has its own: sum
	value   func(wire.Vitals) float64 // of a replica; nil: elsewhere
	desc    *prometheus.Desc
}

func (f *family) full() string { return namespace + f.name }

// of is the family's metric with a value of the moment.
func (f *family) of(value float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if f.kind == counter {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(f.desc, kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(f.desc, err)
	}
	return m
}

// part is a section of docs/metrics.md.
type part []*family

func (p *part) add(f family) *family {
	f.desc = prometheus.NewDesc(f.full(), f.help, f.labels, nil)
	*p = append(*p, &f)
	return &f
}

func (p *part) counter(name, help string, labels ...string) *family {
	return p.add(family{name: name, kind: counter, help: help, labels: labels})
}

func (p *part) gauge(name, help string, labels ...string) *family {
	return p.add(family{name: name, kind: gauge, help: help, labels: labels})
}

// shared is a gauge that every replica reads from the store.
func (p *part) shared(name, help string, labels ...string) *family {
	return p.add(family{name: name, kind: gauge, help: help, labels: labels, cluster: true})
}

// vital is a metric of a replica without labels.
func (p *part) vital(k kind, name, help string, value func(wire.Vitals) float64) *family {
	return p.add(family{name: name, kind: k, help: help, value: value})
}

func (p *part) histogram(buckets []float64, name, help string, labels ...string) *family {
	return p.add(family{name: name, kind: histogram, help: help, labels: labels, buckets: buckets})
}

// All families; each one is named once, below.
var happens, asked, stands, stored part

// The buckets are coarse: each pool has a set of them.
var (
	lagBuckets  = []float64{0.01, 0.05, 0.25, 1, 2.5, 10, 60, 300, 1800}
	workBuckets = []float64{0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 14400}
	waitBuckets = []float64{0.001, 0.01, 0.1, 1, 10, 60, 600, 3600}
	callBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}
)

// Work of replicas.
var (
	triggersDecided = happens.counter("triggers_decided_total",
		"Due times and manual runs that were decided, by cause (schedule, catch_up, manual, backfill) and decision (run, skipped, missed).", "cause", "decision")
	triggersEnded = happens.counter("triggers_ended_total",
		"Due times and manual runs that ended, by outcome (ran, skipped, missed, lost) and the result of those that ran (succeeded, failed, cancelled); a lost one whose late result is recorded counts again.", "outcome", "result")
	startLag = happens.histogram(lagBuckets, "start_lag_seconds",
		"Time from a task's due time, or its start with jitter, to the call of its handler; a caught-up due time counts from its decision, a retry from the end of its backoff.", "pool")
	attemptDuration = happens.histogram(workBuckets, "attempt_duration_seconds",
		"Duration of handlers.", "pool")
	attempts = happens.counter("attempts_total",
		"Attempts that ended, by result (succeeded, failed, cancelled, lost, snoozed).", "pool", "result")
	tasksEnded = happens.counter("tasks_ended_total",
		"Tasks that ended, by state (succeeded, failed, cancelled, lost); those cancelled before they started are not counted.", "pool", "state")
	retries = happens.counter("retries_total",
		"Retries scheduled, by the result of the last attempt (failed, lost).", "pool", "after")
	tasksQuarantined = happens.counter("tasks_quarantined_total",
		"Tasks that ended as lost, reason quarantined: as many replicas as their lost_limit died while they had them.", "pool")
	tasksReaped = happens.counter("tasks_reaped_total",
		"Running tasks reaped after their owner's session expired.", "pool")
	handedBack = happens.counter("tasks_handed_back_total",
		"Claimed tasks handed back unstarted: no slot was free in time, or the replica drained.", "pool")
	resultsFenced = happens.counter("results_fenced_total",
		"Results rejected for a stale token: another replica owns the task.")
	resultsLate = happens.counter("results_late_total",
		"Late results that replaced a lost one: the replica was slow and had not ended.")
)

// Claims and locks.
var (
	tasksClaimed = asked.counter("tasks_claimed_total",
		"Tasks claimed; a due time that starts at once is not claimed.", "pool")
	claimDuration = asked.histogram(callBuckets, "claim_duration_seconds",
		"Duration of claims of a pool, with the wait for its lock, by lock backend and result (took, empty, full, paused, outdated, failed).", "backend", "result")
	lockDuration = asked.histogram(callBuckets, "lock_acquire_duration_seconds",
		"Calls to acquire locks, by backend and result (granted: at least one key, queued: a place in the queue and none, busy: neither, unknown: no answer, unavailable).", "backend", "result")
	lockKeys = asked.counter("lock_keys_total",
		"Keys requested, by backend and result (granted, queued, busy, unknown, unavailable).", "backend", "result")
	lockRenewal = asked.histogram(callBuckets, "lock_renew_duration_seconds",
		"Renewals of the lock session, by backend and result (renewed, failed, lost).", "backend", "result")
	lockLost = asked.counter("lock_lost_total",
		"Leases that ended before their release, by backend and reason (lost: with their session, forced: by force).", "backend", "reason")
	lockHeld = asked.gauge("lock_held",
		"Keys that this process holds, by backend.", "backend")
	lockWaiting = asked.gauge("lock_waiting",
		"Keys that calls of this process wait for, by backend.", "backend")
	lockWait = asked.histogram(waitBuckets, "lock_wait_duration_seconds",
		"Waits for a key, by backend and result (granted, given_up: the call's context ended first, or the service was down).", "backend", "result")
	lockHold = asked.histogram(waitBuckets, "lock_hold_duration_seconds",
		"Time that keys were held, until they were released or lost, by backend.", "backend")
	lockSessionsLost = asked.counter("lock_sessions_lost_total",
		"Sessions of the lock service that expired.", "backend")
)

// State of a replica.
var (
	buildInfo = stands.gauge("build_info",
		"Always 1.", "version", "goversion")
	_ = stands.vital(gauge, "replica_ready", "1 while this replica starts new work.",
		func(v wire.Vitals) float64 { return bit(v.Ready) })
	_ = stands.vital(gauge, "replica_draining", "1 while this replica drains.",
		func(v wire.Vitals) float64 { return bit(v.Draining) })
	_ = stands.vital(gauge, "store_up", "1 while the store answers this replica.",
		func(v wire.Vitals) float64 { return bit(v.StoreUp) })
	lockUp = stands.gauge("lock_up",
		"1 while the lock service answers this replica; backend store: the store's own rows.", "backend")
	_ = stands.vital(gauge, "session_renewal_age_seconds", "Time since the store last acknowledged a heartbeat; beyond replica.session_ttl the session expires.",
		func(v wire.Vitals) float64 { return v.RenewalAge.Seconds() })
	_ = stands.vital(counter, "sessions_lost_total", "Expired sessions of this replica.",
		func(v wire.Vitals) float64 { return float64(v.SessionsExpired) })
	_ = stands.vital(counter, "replicas_declared_dead_total", "Sessions of other replicas that this one expired.",
		func(v wire.Vitals) float64 { return float64(v.PeersExpired) })
	_ = stands.vital(gauge, "clock_skew_seconds", "The database's clock minus this machine's, at the last heartbeat.",
		func(v wire.Vitals) float64 { return v.ClockSkew.Seconds() })
	_ = stands.vital(counter, "clock_refused_total", "Heartbeats at which the database's clock was off by more than replica.max_clock_skew: nothing was decided then.",
		func(v wire.Vitals) float64 { return float64(v.ClockRefused) })
	_ = stands.vital(gauge, "configuration_number", "Number of this replica's configuration; of live ones the highest governs.",
		func(v wire.Vitals) float64 { return float64(v.Config) })
	_ = stands.vital(gauge, "configuration_drift_jobs", "Jobs that this replica does not decide: a newer configuration governs and defines them differently, or only one of the two has them.",
		func(v wire.Vitals) float64 { return float64(v.Foreign) })
	_ = stands.vital(gauge, "configuration_drift_pools", "Pools of which this replica does not claim all tasks: a newer configuration governs, with other handlers or without the pool.",
		func(v wire.Vitals) float64 { return float64(v.ForeignPools) })
	_ = stands.vital(gauge, "stripes", "Stripes that this replica owns, of 64.",
		func(v wire.Vitals) float64 { return float64(v.Stripes) })
	_ = stands.vital(gauge, "workers", "Maximum of attempts at once in this replica.",
		func(v wire.Vitals) float64 { return float64(v.Workers) })
	running = stands.gauge("attempts_running",
		"Running attempts in this replica.", "pool")
	configurationUsable = stands.gauge("configuration_usable",
		"1 while the replica runs with the content of its configuration's files; 0: they have changed, cannot be used, and the one before holds.")
	pingUp = stands.gauge("ping_up",
		"1 if this replica called the monitor outside in its last turn, 0 if it was stuck or the call failed; absent without ping.")
	certificateExpiry = stands.gauge("certificate_expiry_timestamp_seconds",
		"Expiry of the API's certificate, in Unix time; absent without TLS.")
)

// State of the store.
var (
	replicas = stored.shared("replicas",
		"Replicas by state (live, draining, dead: expired, its tasks are not reaped yet).", "state")
	paused = stored.shared("paused",
		"1 while everything is paused: nothing starts, in any replica.")
	poolPending = stored.shared("pool_pending_tasks",
		"Due tasks that wait for a slot in a replica, or for a worker over HTTP.", "pool")
	poolScheduled = stored.shared("pool_scheduled_tasks",
		"Tasks scheduled for later, or in backoff.", "pool")
	poolRunning = stored.shared("pool_running_tasks",
		"Running tasks in all replicas.", "pool")
	poolOldest = stored.shared("pool_oldest_pending_age_seconds",
		"Age of the oldest due task; 0 if there is none.", "pool")
	poolUnrunnable = stored.shared("pool_unrunnable_tasks",
		"Due tasks that no live replica has a handler for: of an unknown kind, or in a pool without a configuration. Counted among the first 5,000 of the pool.", "pool")
	poolPaused = stored.shared("pool_paused",
		"1 while the pool is paused.", "pool")
	jobCount = stored.shared("jobs",
		"Jobs by state (active, suspended).", "state")
	lastSuccess = stored.shared("job_last_success_timestamp_seconds",
		"Time of the job's last success; absent without one.", "name")
	deadline = stored.shared("job_deadline_timestamp_seconds",
		"Time by which the job must have succeeded (see below); absent for suspended jobs and those without a schedule.", "name")
	failing = stored.shared("job_failing",
		"1 from a failed, lost or missed end of a job to its next success; absent otherwise, and beyond 1,000 jobs.", "name")
	jobUnrunnable = stored.shared("job_unrunnable",
		"1 for a job whose runs_on matches the labels of no live replica; absent otherwise, for suspended jobs, and beyond 1,000 jobs.", "name")
	jobsFailing = stored.shared("jobs_failing",
		"Number of these jobs, without that bound.")
	refreshed = stored.gauge("refresh_timestamp_seconds",
		"Time of the last read of these metrics from the store; they are absent when it is too old.")
	refreshDuration = stored.gauge("refresh_duration_seconds",
		"Duration of that read.")
	refreshFailures = stored.counter("refresh_failures_total",
		"Failed reads.")
)
