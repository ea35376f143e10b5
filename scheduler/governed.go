package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// governing is the definition of a pool that holds, as far as this replica has learned: its own, or what a newer
// configuration says. A claim names its hash, so what was learned is used only while it is true. Immutable.
type governing struct {
	hash       string // of the pool's row; "": no live configuration has the pool
	maxRunning int
	own        bool     // it is this replica's
	shared     []string // otherwise: the kinds whose handlers this replica has in the same way
}

func (p *poolPlan) governs() governing {
	return governing{hash: p.hash, maxRunning: p.MaxRunning, own: true}
}

// under is how the pool is governed by what its row says.
func (p *poolPlan) under(row ledger.OtherPool) governing {
	if row.Hash == p.hash {
		return p.governs()
	}
	g := governing{hash: row.Hash, maxRunning: row.MaxRunning, shared: []string{}}
	for _, kind := range p.kinds {
		if row.Kinds[kind] == p.hashes[kind] {
			g.shared = append(g.shared, kind)
		}
	}
	return g
}

// same reports whether two of one pool are the same. A hash says all but shared, which an older program does not write.
func (g governing) same(other governing) bool {
	return g.hash == other.hash && slices.Equal(g.shared, other.shared)
}

// kinds are those that this replica may run by handlers of the pool.
func (g governing) kinds(p *poolPlan) []string {
	if g.own {
		return p.kinds
	}
	return g.shared
}

// lets reports whether this replica may run tasks of the kind by its pool's handler.
func (g governing) lets(kind string) bool { return g.own || slices.Contains(g.shared, kind) }

// runs reports whether this replica may run tasks of the job, as far as their pool decides that.
func (g governing) runs(j *jobPlan) bool {
	return g.hash != "" && (j.Handler != nil || g.lets(j.Kind))
}

// goBy has the feeder claim as g says, and forget which jobs could not be run: they may be ours again.
func (f *feeder) goBy(g governing) {
	f.mu.Lock()
	other := f.governs.hash != g.hash
	if !f.governs.same(g) || len(f.skipJobs) > 0 { // else the place behind what was passed holds
		f.governs = g
		f.forget()
	}
	f.mu.Unlock()
	if other {
		wake.Send(f.wake)
	}
}

// governed is by what the feeder goes now.
func (f *feeder) governed() governing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.governs
}

// Runs reports whether this replica takes tasks of the kind in the pool by the pool's handler: not if a newer
// configuration governs and has it otherwise, as far as this replica has learned of it, nor while it drains.
func (s *executor) Runs(pool, kind string) bool {
	f, known := s.feeders[pool]
	if !known || s.member.Draining() {
		return false
	}
	return slices.Contains(f.governed().kinds(f.pool), kind)
}

// left says which tasks of the pool are left to replicas with a newer configuration; "": none. That of the
// notifications is not spoken of: its kinds have no names for people, and who governs sends all of them.
func (p *plan) left(row ledger.OtherPool) string {
	own, known := p.pools[row.Name]
	switch {
	case row.Name == naming.NotificationsPool, !known && row.Hash == "":
		return ""
	case !known:
		return row.Name + " (this replica does not have the pool)"
	case row.Hash == "":
		return row.Name + " (the newer one does not have the pool)"
	}
	g := own.under(row)
	var kinds []string
	for _, kind := range distinct(own.kinds, row.Kinds) {
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
	return fmt.Sprintf("%s (%s)", row.Name, some(kinds))
}

// some names a few.
func some(names []string) string {
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
