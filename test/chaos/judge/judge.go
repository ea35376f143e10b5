// Package judge checks from the artifacts of a chaos run whether the promises held in it.
//
// It does not rely on the product: due times are computed here, by arithmetic on periods; starts are taken from
// the output of handlers, and writes from the audit of database triggers. A fault excuses only what its kinds
// may excuse, see excuses.go. I1 to I7 have no excuse but the one that is written beside them.
package judge

import (
	"cmp"
	"slices"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Invariant is the name of a promise.
type Invariant string

const (
	Accounted   Invariant = "I1"  // each due time has one row, and ends with a reason
	OneStart    Invariant = "I2"  // an attempt starts once, after its claim; a due time as often as its policy says
	Slots       Invariant = "I3"  // forbid and max_running hold in the record; a fenced target takes no older write
	NoOverlap   Invariant = "I3b" // forbid holds for the processes too
	Tokens      Invariant = "I4"  // tokens grow
	StaleOwners Invariant = "I5"  // a stale owner changes nothing
	Conserved   Invariant = "I6"  // acknowledged tasks are there, others are not
	OneEnd      Invariant = "I7"  // a task ends once, by the allowed ways
	OnTime      Invariant = "I8"  // never early, and not late
	Recovers    Invariant = "I9"  // without help
	Degrades    Invariant = "I10" // no start without the store, no harm done by what only stays away
	Drains      Invariant = "I11" // SIGTERM loses nothing
	Clean       Invariant = "I12" // no panic, no race, nothing left over
	NotVacuous  Invariant = "I13" // the run has seen enough to say anything
	Excludes    Invariant = "I14" // a key has one holder that may trust its lease
	InTurn      Invariant = "I15" // waiters are served in order, and none waits behind a dead one
)

// Invariants are all of them, in order.
var Invariants = []Invariant{
	Accounted, OneStart, Slots, NoOverlap, Tokens, StaleOwners, Conserved, OneEnd, OnTime, Recovers, Degrades, Drains, Clean, NotVacuous, Excludes, InTurn,
}

// Judge checks all invariants. It has no clock and makes no calls; of files it reads only the logs below
// h.Run.Directory, if that is set.
func Judge(h *history.History) Report {
	t := newTrial(h)
	t.accounted()
	t.starts()
	t.slots()
	t.overlaps()
	t.tokens()
	t.staleOwners()
	t.conserved()
	t.ends()
	t.onTime()
	t.recoveries()
	t.degraded()
	t.drains()
	t.clean()
	t.notVacuous()
	t.excludes()
	t.inTurn()
	t.execs()
	t.workers()
	slices.SortStableFunc(t.report.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(slices.Index(Invariants, a.Invariant), slices.Index(Invariants, b.Invariant)), a.At.Compare(b.At))
	})
	return t.report
}
