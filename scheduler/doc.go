// Package scheduler is one replica: it keeps a session in the store, decides due times, claims
// tasks, executes them, and expires the silent sessions of other replicas. Any number of replicas
// work side by side on one store; there is no leader.
//
// A program gives [New] a store, a lock service or nil, and a [jobs.Set], and calls [Scheduler.Run], which
// blocks until its context is done. docs/embedding.md shows the rest; package schedulertest runs a
// Set in tests.
//
//	              ┌─ Keep, Watch  heartbeats, clock, silent sessions    (internal/membership)
//	              ├─ Keep         results, deadlines, lost claims       (internal/work)
//	              ├─ govern       which configuration holds             (govern.go)
//	Run(ctx) ─────┤
//	              ├─ Take         claims tasks, executes them           (internal/work)
//	              ├─ Run          due times → decisions; stripes        (internal/triggers)
//	              ├─ notify       events → tasks of notifications       (notify.go)
//	              └─ sweep        what is older than its retention      (sweep.go)
//
// The first three go on until a drain is over; the others take work, and end as the drain begins.
//
// This package wires the parts, and each can be read alone:
//
//	Scheduler ──▶ internal/triggers ─ ─ Work ─ ─▶ internal/work ──▶ internal/membership ──▶ internal/wake
//	              due times                       claims            session                 what loops
//	              stripes                         attempts          clock                   wait with
//	              decisions                       results           peers
//
// The triggers see the work as an interface: workers that are reserved, and what was decided handed over to them. What is
// to be executed, compiled, is internal/plan. docs/decisions.md (95) follows a trigger and a task
// from file to file.
//
// Three guards, in this order. The lock decides which replica tries; busy is advice with a time limit, and
// what has been due for more than 250 ms behind a busy lock is decided by the row alone. The row
// decides which replica wins. The token fences stale writes: each result carries it.
//
// A replica trusts its session until the moment before it asked for the last acknowledged heartbeat,
// plus the session's ttl, less a margin. Beyond that it starts nothing, and stops what another
// replica may start in its place.
package scheduler
