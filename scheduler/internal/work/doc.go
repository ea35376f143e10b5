// Package work is what a replica does with tasks: it claims them, executes them, and records what came of them. It does not
// know why a task is there. It can be read alone: of the replica it needs a session that says whether it is trusted
// (membership), what is to be executed (plan), and for tasks with locks their lock service.
//
//	claim (feed.go, waiter.go)                Reserve (admission.go)
//	      │                                        │ start: a transaction of others has decided it
//	      ▼                                        ▼
//	   claiming ──▶ queued ─────────────────▶ running ──▶ recording ──▶ forgotten
//	      │            │  a worker is free       ▲            ▲   the store has acknowledged it
//	      └────────────│─────────────────────────┘            │
//	                   └──────────────────────────────────────┘
//	                     it has waited too long: handed back
//
// Claiming is the state of a transaction, whose tasks are known when it has ended. The register (register.go) has these
// transactions, and each task of this replica in one of the other states, by its id and token: a task that is claimed again is
// another entry. A result, which may be that the task is handed back, stays here until the store has acknowledged it
// (record.go, refusal.go).
//
//	Take   poll        which pools have work                        (poll.go)
//	       feed        each pool: look, lock, claim, start          (feed.go, claim_lock.go, look.go, try.go)
//	       waits       tasks whose locks others hold                (waits.go, waiter.go, explain.go)
//	       unrunnable  what no live replica can run, for the log    (unrunnable.go)
//	Keep   tend        reaps, cancels, hands back lost claims       (reap.go, own.go)
//	       expire      attempts near their deadline                 (deadline.go, unresponsive.go)
//	       record      results → store, in batches                  (record.go, refusal.go)
//	       releases    leases → lock service, in batches            (release.go)
//
// A task with locks is claimed with their leases. A claim leaves it where this replica has none; the feeder tries its locks without
// waiting, and claims again. A task whose locks were busy waits in the store (state waiting for its locks), and for the first one of
// each key a replica waits at the lock service. What a lease is to its attempt is in lease.go.
//
// Take ends as a drain begins, Keep when it is over (drain.go). An attempt (attempt.go) begins in execute.go, on a worker of its pool (slots.go).
// What may stop it, and until when it may run, is in deadline.go; what its handler wrote is kept by clip.Output, and what
// it returned is read by returned.go. A pool whose work finds a shortage of descriptors, processes or memory is left to others for a moment (shortage.go).
package work
