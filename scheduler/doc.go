// Package scheduler is one replica: it keeps a session in the store, decides due times, claims
// tasks, executes them, and expires the silent sessions of other replicas. Any number of replicas
// work side by side on one store; there is no leader.
//
// A program gives [New] a store, a lock service or nil, and a [jobs.Set], and calls [Scheduler.Run], which
// blocks until its context is done. docs/embedding.md shows the rest; package schedulertest runs a
// Set in tests.
//
//	              ┌─ Keep     heartbeats, trust window, clock      (internal/membership)
//	              ├─ Watch    expires silent sessions              (internal/membership)
//	              ├─ tend     reaps, cancels, hands back           (reap.go, own.go)
//	              ├─ expire   attempts near their deadline         (deadline.go)
//	              ├─ govern   which configuration holds            (govern.go)
//	              ├─ record   results → store, in batches          (record.go, refusal.go)
//	Run(ctx) ─────┤
//	              ├─ fire     due times → decisions                (fire.go, decide.go, commit.go)
//	              ├─ poll     which pools have work                (poll.go)
//	              ├─ feed     each pool: lock, claim, start        (feed.go)
//	              ├─ balance  stripes, as replicas come and go     (stripes.go)
//	              ├─ notify   events → tasks of notifications      (notify.go)
//	              └─ sweep    what is older than its retention     (sweep.go)
//
// The first six go on until a drain is over; the others take work, and end as the drain begins.
//
// It has three parts. Each knows only those before it, and calls hooks of the others:
//
//	Scheduler ──▶ triggers ──▶ executor ──▶ internal/membership
//	              due times    claims       session
//	              stripes      attempts     clock
//	              decisions    results      peers
//
// What is to be executed, compiled, is internal/plan.
//
// Three guards, in this order. The lock decides which replica tries; busy is advice with a time limit, and
// what has been due for more than 250 ms behind a busy lock is decided by the row alone. The row
// decides which replica wins. The token fences stale writes: each result carries it.
//
// The register (register.go) has every task that the replica is concerned with, in one state: claiming, queued, running or
// recording. What may stop an attempt, and until when it may run, is in deadline.go.
//
// A replica trusts its session until the moment before it asked for the last acknowledged heartbeat,
// plus the session's ttl, less a margin. Beyond that it starts nothing, and stops what another
// replica may start in its place.
package scheduler
