package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// ledgerKey is the primary key of {triggers}.
type ledgerKey struct {
	job string
	at  int64
	seq int
}

func keyOf(g jobs.Trigger) ledgerKey { return ledgerKey{g.Job, micros(g.At), g.Seq} }

func compareKeys(a, b ledgerKey) int {
	return cmp.Or(strings.Compare(a.job, b.job), cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
}

// ofTrigger is the ledger row of a task. The retry of an ended task has none: task_id is that of the first.
// COALESCE keeps SQLite from the index on outcome.
//
// Index: primary key of triggers.
const ofTrigger = "{in name job, int at, int seq, name task_id}"

// born is a task that may come from a trigger.
type born interface {
	key() ledgerKey
	id() string
}

// bornOfTriggers are those of the list that come from a trigger, in the order of the ledger's key.
func bornOfTriggers[T born](list []T) []T {
	list = slices.DeleteFunc(slices.Clone(list), func(r T) bool { return r.key().job == "" })
	slices.SortFunc(list, func(a, b T) int { return compareKeys(a.key(), b.key()) })
	return list
}

// triggerKey is the parameters of ofTrigger.
func triggerKey[T born](r T) []any {
	k := r.key()
	return []any{k.job, k.at, k.seq, r.id()}
}
