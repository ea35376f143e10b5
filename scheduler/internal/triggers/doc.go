// Package triggers is the due times of a replica: it decides them, in the stripes that it owns as soon as they are due, and
// in all stripes once they are overdue. It can be read alone: of the work it needs a reservation of workers and an end to
// hand tasks over to, which is the interface Work.
//
//	peers come or go
//	       │
//	       ▼
//	    balance ──▶ stripes: lock the own ones, release the others       (stripes.go, other_store.go)
//	       │ reads the due times of a new stripe
//	       ▼
//	    upcoming: a heap of jobs, by the time to look at each            (upcoming.go)
//	       │ due                         overdue, in any stripe
//	       ▼                                     │
//	     fire ◀──────────────────────────────────┘                       (fire.go)
//	       │
//	       ▼
//	    decideFree                                                       (commit.go)
//	       1. Work.Reserve: workers for runs of these jobs
//	       2. one transaction: the store locks the jobs' rows, and asks
//	          the rules what becomes of each due time                    (decide.go, taken.go)
//	       3. hand over: what became running starts, other workers are free
//	       4. when to look at each job next ──▶ upcoming
//
// A job whose rows another transaction holds is decided right after the others. A job that a newer configuration governs is
// left to it (foreign.go). RunJob and Retry decide one job outside of its schedule, in the same way (manual.go).
//
// The rules hold no state: the store may ask them again with newer rows. The lock of a stripe decides which replica tries,
// and the row which one wins.
package triggers
