package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// failing is what is known of a pool that is paused when its attempts fail.
type failing struct {
	jobs.PauseOn
	window string // the last ends since counting began: 1 for each that failed
	commit int    // the transaction whose rows come
	ends   []bool // of attempts in it, in the order of the results: which failed
}

// drawPauseOn has some pools paused when their attempts fail, and a user who resumes them. Where there are two configurations it is not known which
// one the owner of an attempt has.
func (p *plan) drawPauseOn(d draw) {
	if p.Edited != nil || !d.chance(0.3) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		if !d.chance(0.6) || name == naming.NotificationsPool {
			continue
		}
		pool := p.Pools[name]
		pool.PauseOn = jobs.PauseOn{Failures: pick(d, 25, 50, 67, 100), Of: 2 + d.IntN(7)}
		p.Pools[name] = pool
		for at := time.Duration(0); at < p.Length; {
			at += d.between(time.Second, 4*time.Second).Truncate(time.Millisecond)
			p.Steps = append(p.Steps, step{At: at, Kind: resumesPool, Name: name})
		}
	}
}

func newFailing(p *plan) map[string]*failing {
	all := map[string]*failing{}
	for name, pool := range p.Pools {
		if pool.PauseOn.Of > 0 {
			all[name] = &failing{PauseOn: pool.PauseOn}
		}
	}
	return all
}

// resumePaused resumes the pools that were paused as their attempts failed.
func (w *world) resumePaused() {
	for name := range w.failing {
		if w.isPaused(name) {
			_ = w.admin.PausePool(context.Background(), name, "", nil)
		}
	}
}

func (w *world) isPaused(pool string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused[pool]
}

// countEnd counts the end of an attempt that its owner has recorded. With w.mu held.
func (w *world) countEnd(c memstore.Change, pool string, failed bool) {
	if f := w.failing[pool]; f != nil {
		w.settlePause(pool, c.Commit)
		f.ends = append(f.ends, failed)
	}
}

// settlePause: the ends in the transaction before were counted, unless the pool was paused. With w.mu held.
func (w *world) settlePause(pool string, commit int) {
	f := w.failing[pool]
	if commit == f.commit {
		return
	}
	if len(f.ends) > 0 && !w.paused[pool] {
		w.violate(pool, "pool %s: the ends of %d attempts were not counted for pause_on", pool, len(f.ends))
	}
	f.commit, f.ends = commit, nil
}

// settlePauses judges the last transaction of each pool. With w.mu held.
func (w *world) settlePauses() {
	for pool := range w.failing {
		w.settlePause(pool, -1)
	}
}

// watchPauseOn: a pool is paused as soon as so many of its last attempts have failed, once, and its row counts them. Whoever pauses or resumes it has counting
// begin anew. With w.mu held, before w.paused has the row.
func (w *world) watchPauseOn(c memstore.Change, before, r memstore.Pool) {
	f := w.failing[r.Name]
	if f == nil {
		return
	}
	w.settlePause(r.Name, c.Commit)
	paused, wanted := r.Paused != nil && *r.Paused, w.paused[r.Name]
	switch {
	case c.Op == "pause pool":
		wanted, f.window = paused, ""
	case len(f.ends) > 0 && !wanted:
		wanted = f.count()
		f.ends = nil
	}
	if r.PauseWindow != f.window || paused != wanted {
		w.violate(r.Name, "pool %s has counted %q for pause_on and is paused %v; by the ends of its attempts it is %q and %v", r.Name, r.PauseWindow, paused, f.window, wanted)
	}
	if paused && !w.paused[r.Name] && c.Op == "finish" {
		w.counted["pauses of a pool that fails"]++
		if r.PausedBy != ledger.PausedBy || r.PauseReason == "" {
			w.violate(r.Name, "pool %s is paused by %q: %q", r.Name, r.PausedBy, r.PauseReason)
		}
		w.happens(memstore.Event{Event: string(jobs.EventPaused), Pool: r.Name, Reason: r.PauseReason, HappenedAt: w.shows().UnixMicro()})
	}
}

// count adds the ends of a transaction to the last ones, and reports whether enough have failed. What comes after that in the transaction counts no more.
func (f *failing) count() bool {
	for _, failed := range f.ends {
		f.window += map[bool]string{false: "0", true: "1"}[failed]
		last := f.window[max(0, len(f.window)-f.Of):]
		bad := 0
		for _, is := range last {
			if is == '1' {
				bad++
			}
		}
		if f.window = last; failed && 100*bad >= f.Failures*f.Of {
			f.window = ""
			return true
		}
	}
	return false
}
