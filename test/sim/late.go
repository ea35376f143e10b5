package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Runs that are late. The judge knows by when a run of each job is to have started and ended, follows each row of expectations from its commit to
// its end, and compares what is told with the run's own row at that moment.

// drawExpectations has something expected of a share of the jobs, the same in all versions.
func (p *plan) drawExpectations(d draw) {
	for _, name := range slices.Sorted(maps.Keys(p.Jobs)) {
		if !d.chance(0.4) {
			continue
		}
		var e jobs.Expect
		switch d.IntN(3) {
		case 0:
			e.StartWithin = d.between(time.Second, 4*time.Second)
		case 1:
			e.FinishWithin = d.between(time.Second, 6*time.Second)
		default:
			e = jobs.Expect{StartWithin: d.between(time.Second, 2*time.Second), FinishWithin: d.between(2*time.Second, 6*time.Second)}
		}
		for _, set := range p.versions() {
			if j, ok := set[name]; ok {
				j.Expect = e
				set[name] = j
			}
		}
	}
}

// lateKey is one thing that is expected of a run.
type lateKey struct {
	run  memstore.TriggerKey
	what string
}

// lateness is what is known of what is expected of runs.
type lateness struct {
	runs map[memstore.TriggerKey]memstore.Trigger // as committed last
	open map[lateKey]memstore.Expectation         // rows
	met  map[lateKey]bool                         // of rows that are gone
	told map[lateKey]bool
}

func newLateness() lateness {
	return lateness{map[memstore.TriggerKey]memstore.Trigger{}, map[lateKey]memstore.Expectation{}, map[lateKey]bool{}, map[lateKey]bool{}}
}

func within(e jobs.Expect, what string) time.Duration {
	if what == "start" {
		return e.StartWithin
	}
	return e.FinishWithin
}

// watchExpectation gets a new row. With w.mu held.
func (w *world) watchExpectation(r memstore.Expectation) {
	k := lateKey{memstore.TriggerKey{Job: r.Job, At: r.At, Seq: r.Seq}, r.What}
	after := within(w.specs[r.Job][0].Expect, r.What)
	if !slices.ContainsFunc(w.countsFrom(r), func(from time.Time) bool { return from.Add(after).UnixMicro() == r.DueBy }) {
		w.violate(r.Job, "the run of %s at %s is expected to %s by %s, not %v after %v", r.Job, clock(r.At), r.What, clock(r.DueBy), after, w.countsFrom(r))
	}
	if _, met := w.late.met[k]; met {
		w.violate(r.Job, "the run of %s at %s is expected to %s twice", r.Job, clock(r.At), r.What)
	}
	w.late.open[k] = r
}

// countsFrom is when the run starts that something is expected of: its due time, after its jitter, or when its calendar lets it. One by hand has neither.
// Versions of the job may differ in both. With w.mu held.
func (w *world) countsFrom(r memstore.Expectation) (all []time.Time) {
	at := time.UnixMicro(r.At).UTC()
	if r.Seq > 0 {
		if run := w.late.runs[memstore.TriggerKey{Job: r.Job, At: r.At, Seq: r.Seq}]; run.Cause == string(jobs.CauseBackfill) {
			at = time.UnixMicro(run.DecidedAt).UTC() // it was due long ago
		}
		return []time.Time{at}
	}
	for _, j := range w.specs[r.Job] {
		all = append(all, j.start(r.Job, at))
	}
	return all
}

// watchLooked gets a row that is gone: whether its run is late is decided by what it has done up to now. With w.mu held.
func (w *world) watchLooked(r memstore.Expectation) {
	k := lateKey{memstore.TriggerKey{Job: r.Job, At: r.At, Seq: r.Seq}, r.What}
	delete(w.late.open, k)
	if w.latest().Before(time.UnixMicro(r.DueBy)) {
		w.violate(r.Job, "whether the run of %s at %s is late was decided before its time", r.Job, clock(r.At))
	}
	run, exists := w.late.runs[k.run]
	at := run.StartedAt
	if r.What == "finish" {
		at = run.FinishedAt
	}
	never := run.Outcome == string(jobs.Skipped) || run.Outcome == string(jobs.Missed)
	w.late.met[k] = !exists || at != 0 && at <= r.DueBy || never
}

// watchTold gets the event of a late run. With w.mu held.
func (w *world) watchTold(e memstore.Event) {
	k := lateKey{memstore.TriggerKey{Job: e.Job, At: e.TriggerAt, Seq: e.TriggerSeq}, map[bool]string{true: "start", false: "finish"}[e.ReasonCode == "start_late"]}
	met, decided := w.late.met[k]
	switch {
	case !decided:
		w.violate(e.Job, "the run of %s at %s is told to be late, and nothing was expected", e.Job, clock(e.TriggerAt))
	case met:
		w.violate(e.Job, "the run of %s at %s is told to be late, and was in time to %s", e.Job, clock(e.TriggerAt), k.what)
	case w.late.told[k]:
		w.violate(e.Job, "the run of %s at %s is told to be late twice", e.Job, clock(e.TriggerAt))
	}
	w.late.told[k] = true
}

// judgeLate: of each run, all that is expected was, and what it did not meet was told. With w.mu held.
func (w *world) judgeLate() {
	for k, met := range w.late.met {
		if !met && !w.late.told[k] {
			w.violate(k.run.Job, "the run of %s at %s was late to %s, and nobody was told", k.run.Job, clock(k.run.At), k.what)
		}
		if !met {
			w.counted["late"]++
		}
	}
	for k, run := range w.late.runs {
		for _, what := range []string{"start", "finish"} {
			_, decided := w.late.met[lateKey{k, what}]
			_, open := w.late.open[lateKey{k, what}]
			if run.TaskID != "" && within(w.specs[k.Job][0].Expect, what) > 0 && !decided && !open {
				w.violate(k.Job, "nothing is expected of the run of %s at %s, which is to %s in time", k.Job, clock(k.At), what)
			}
		}
	}
}
