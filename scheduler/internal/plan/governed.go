package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Governing is the definition of a pool that holds, as far as this replica has learned: its own, or that of a newer
// configuration. A claim names its hash, so a definition that holds no longer claims nothing. Immutable.
type Governing struct {
	Hash    string   // of the pool's row; "": no live configuration has the pool
	Limited bool     // it has limits, as a whole or by key
	own     bool     // it is this replica's own
	Shared  []string // otherwise: the kinds whose handlers are the same in this replica
}

func (p *Pool) Governs() Governing {
	return Governing{Hash: p.Hash, Limited: p.ByKey() || !ledger.Limits{MaxRunning: p.MaxRunning, Rate: p.Rate}.None(), own: true}
}

// Under is how the pool is governed if its row says row.
func (p *Pool) Under(row ledger.OtherPool) Governing {
	if row.Hash == p.Hash {
		return p.Governs()
	}
	return Governing{Hash: row.Hash, Limited: row.ByKey || !ledger.Limits{MaxRunning: row.MaxRunning, Rate: row.Rate}.None(), Shared: ledger.SharedKinds(p.KindHashes, row.Kinds)}
}

// Equal reports whether two of one pool are the same. The hash covers all but Shared, which an older program does not write.
func (g Governing) Equal(other Governing) bool {
	return g.Hash == other.Hash && slices.Equal(g.Shared, other.Shared)
}

// KindsOf returns the kinds that this replica may run by handlers of the pool.
func (g Governing) KindsOf(p *Pool) []string {
	switch {
	case !p.here:
		return []string{}
	case g.own:
		return p.KindNames
	}
	return slices.DeleteFunc(slices.Clone(g.Shared), func(kind string) bool { return slices.Contains(p.ByWorkers, kind) })
}

// lets reports whether this replica may run tasks of the kind by its pool's handler.
func (g Governing) lets(kind string) bool { return g.own || slices.Contains(g.Shared, kind) }

// runs reports whether this replica may run tasks of the job, as far as the pool decides that.
func (g Governing) runs(j *Job) bool {
	return g.Hash != "" && (j.Handler != nil || g.lets(j.Kind))
}

// Admit says whether this replica can and may run a task of a pool under g, and until when.
func (p *Plan) Admit(g Governing, now time.Time, c ledger.Candidate) (until time.Time, ok bool) {
	if _, ok := p.Execution(c.Task); !ok {
		return time.Time{}, false
	}
	if c.Task.Job == "" {
		return time.Time{}, g.lets(c.Task.Kind)
	}
	j := p.Jobs[c.Task.Job]
	return j.Until(now), j.Hash == c.JobHash && g.runs(j)
}

// Until is how long an attempt that starts now may run even if this replica loses its connection to the
// store: until another replica may start it again, or until its timeout. Zero: no longer than the session is
// trusted. It is zero with a lock that cancels, too: the next holder of the lock does not wait for the job's next due time; nor does
// a run that waits for a slot.
func (j *Job) Until(now time.Time) time.Time {
	if j.OnLost == jobs.LostRetries || anyCancels(j.locks) || j.Concurrency.Queues() {
		return time.Time{}
	}
	until := now.Add(j.Timeout)
	if next := j.NextFire(now); j.Concurrency != jobs.Allow && !next.IsZero() && next.Before(until) {
		until = next
	}
	return until
}

// Left says which tasks of the pool are left to replicas with a newer configuration; "" if none are. It says nothing of the
// notifications' pool: its kinds have no names for messages, and the replica that governs sends all of them.
func (p *Plan) Left(row ledger.OtherPool) string {
	own, known := p.Pools[row.Name]
	switch {
	case row.Name == naming.NotificationsPool, !known && row.Hash == "":
		return ""
	case !known:
		return row.Name + " (this replica does not have the pool)"
	case row.Hash == "":
		return row.Name + " (the newer one does not have the pool)"
	}
	g := own.Under(row)
	var kinds []string
	for _, kind := range distinct(slices.Concat(own.KindNames, own.ByWorkers), row.Kinds) {
		switch {
		case g.lets(kind):
		case kind == "":
			kinds = append(kinds, "tasks without a kind")
		default:
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s)", row.Name, Some(kinds))
}

// Some joins the first few names.
func Some(names []string) string {
	const few = 10
	if n := len(names) - few; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), n)
	}
	return strings.Join(names, ", ")
}

func distinct(kinds []string, hashes map[string]string) []string {
	all := slices.Clone(kinds)
	for kind := range hashes {
		all = append(all, kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
