package sim

import (
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// patience is how long the replicas may take to come to rest, before the clock is advanced without them.
const patience = 40 * time.Second

// quiesce waits until all that was due before end has ended.
func (w *world) quiesce(end time.Time) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.telling.rested = true
	}()
	for round := range 4 {
		if round == 2 {
			w.cancelStarving()
		}
		for began := time.Now(); time.Since(began) < patience; time.Sleep(500 * time.Millisecond) {
			if w.unfinished(end) == "" {
				return
			}
			w.resumePaused()
		}
		until := w.waitsFor()
		if d := until.Sub(w.clock()); d > 0 { // no replica needs to run until then
			w.note("PLAN", "nothing for %v", d)
			w.outageByDrain(d)
		}
	}
	what := w.unfinished(end)
	if what != "" {
		w.noteUnrest()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if what != "" {
		w.violate(what, "not at rest: %s", what)
	}
}

func (w *world) outageByDrain(d time.Duration) {
	w.weather.stir(d)
	var gone sync.WaitGroup
	for _, n := range w.nodes {
		gone.Go(func() { n.drain(d) })
	}
	gone.Wait()
}

// unfinished names something that was due before end and has not ended; "" if there is nothing.
func (w *world) unfinished(end time.Time) (what string) {
	w.db.Look(func(rows memstore.Rows) {
		w.mu.Lock()
		defer w.mu.Unlock()
		healed := w.healed
		for id, r := range rows.Tasks {
			if r.CreatedAt <= healed.UnixMicro() && !retired(rows, r.Job) && (r.State == memstore.Running || !removed(rows, r.Pool)) {
				what = id
			}
		}
		for id, o := range rows.Orders {
			if o.Next > 0 && !retired(rows, o.Job) {
				what = "order " + id
			}
		}
		for _, e := range w.late.open {
			if e.DueBy <= min(healed.UnixMicro(), end.UnixMicro()) {
				what = "what is expected of " + e.Job
			}
		}
		if about, _ := w.untold(rows); about != "" {
			what = about
		}
		for _, n := range w.nodes {
			if id := w.latestOn[n.index]; !alive(rows, id) {
				what = id
			}
		}
		for name, list := range w.epochs {
			last := list[len(list)-1]
			if owed := last.closed.owed(last.times, time.UnixMicro(rows.Jobs[name].Cursor), end); last.until == 0 && !owed.IsZero() {
				what = name
			}
		}
	})
	return what
}

// alive reports whether a replica has a live session.
func alive(rows memstore.Rows, id string) bool {
	for _, r := range rows.Sessions {
		if r.Replica == id && !r.Dead {
			return true
		}
	}
	return false
}

// retired reports whether no configuration has the job any more. Its pending tasks wait for its return.
func retired(rows memstore.Rows, job string) bool { return job != "" && rows.Jobs[job].Hash == "" }

func (w *world) noteRetired(rows memstore.Rows) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = map[string]bool{}
	for name := range rows.Jobs {
		w.retired[name] = retired(rows, name)
	}
	w.removed = map[string]bool{}
	for name := range rows.Pools {
		w.removed[name] = removed(rows, name)
	}
}

// waitsFor is when the last job is no longer busy, and the last task is due.
func (w *world) waitsFor() (until time.Time) {
	w.db.Look(func(rows memstore.Rows) {
		last := int64(0)
		for _, j := range rows.Jobs {
			last = max(last, j.BusyUntil)
		}
		for _, r := range rows.Tasks {
			last = max(last, r.RunAt)
		}
		for _, o := range rows.Orders {
			if o.Kind == string(wire.OrderRun) {
				last = max(last, o.Next)
			}
		}
		until = time.UnixMicro(last)
	})
	return until
}
