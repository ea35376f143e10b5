package sim

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Configurations that change while replicas run, and that come back.
const (
	replaces = "replace" // a replica loads version N while it runs
	reverts  = "revert"  // drained, and started with the older configuration
	// a replica loads version N while it runs, which is to be the newest whatever it was
	activates = "activate"
)

// drawReplaces adds changes of configurations to runs with two of them.
func (p *plan) drawReplaces(d draw) {
	if p.Edited == nil || !d.chance(0.7) {
		return
	}
	at := func() time.Duration { return d.between(time.Second, p.Length).Truncate(time.Millisecond) }
	for range 1 + d.IntN(4) {
		p.Steps = append(p.Steps, step{At: at(), Kind: replaces, Replica: d.IntN(p.Replicas), N: d.IntN(2)})
	}
	if d.chance(0.5) {
		p.Steps = append(p.Steps, step{At: at(), Kind: reverts, Replica: d.IntN(p.Replicas), For: d.between(0, 2*time.Second)})
	}
}

// drawActivations has versions made the newest, also the older one.
func (p *plan) drawActivations(d draw) {
	if p.Edited == nil || !d.chance(0.3) {
		return
	}
	for range 1 + d.IntN(2) {
		p.Steps = append(p.Steps, step{At: d.between(time.Second, p.Length).Truncate(time.Millisecond), Kind: activates, Replica: d.IntN(p.Replicas), N: d.IntN(2)})
	}
}

// replaceOn has a replica take a version while it runs. What it answers is not judged: the store may be away.
func (w *world) replaceOn(s step, n *node, r *replica) {
	n.mu.Lock()
	n.version = s.N // its file, also for its next start
	n.mu.Unlock()
	if r == nil {
		return
	}
	w.weather.note(s.Kind)
	w.mu.Lock()
	r.replaced = true
	newest := w.newestNumber()
	if s.Kind == activates {
		w.activations++
	}
	w.mu.Unlock()
	w.steps.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		out, err := r.s.Replace(ctx, w.plan.read(s.N, &handler{w, r, s.N}), scheduler.ReplaceOptions{Activate: s.Kind == activates})
		if s.Kind == activates && err == nil && out.Config > 0 {
			w.judgeActivated(r, out, newest)
		}
	})
}

// newestNumber is the highest number that a configuration has had. With w.mu held.
func (w *world) newestNumber() (n int64) {
	for _, number := range w.numbers {
		n = max(n, number)
	}
	return n
}

// judgeActivated: nothing that was there before is newer than what was activated.
func (w *world) judgeActivated(r *replica, out wire.Reloaded, before int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted["activated"]++
	if out.Config < before {
		w.violate(r.id, "%s has activated its configuration as %d, and there was %d", r.id, out.Config, before)
	}
}

// judgeNumber: a content has one number, which it got when it was loaded first, until somebody makes it the newest. With w.mu held.
func (w *world) judgeNumber(r memstore.Session) {
	if r.ConfigHash == "" || r.Config == 0 {
		return
	}
	if first, known := w.numbers[r.ConfigHash]; known && w.activations > 0 && r.Config > w.newestNumber() {
		w.numbers[r.ConfigHash] = r.Config
	} else if known && first != r.Config {
		w.violate(r.Replica, "%s has configuration %.12s under number %d, which it had got as %d", r.Replica, r.ConfigHash, r.Config, first)
	} else if !known {
		w.numbers[r.ConfigHash] = r.Config
	}
	if r.Dead {
		delete(w.loaded, r.ID)
	} else {
		w.loaded[r.ID] = r.Config
	}
}

// judgeGoverns: the definitions of a configuration are not written while a live replica has a newer one: a replica that restarts with
// an older file changes nothing. With w.mu held.
func (w *world) judgeGoverns(before, r memstore.Job) {
	if r.Hash == before.Hash && r.Schedule == before.Schedule {
		return
	}
	for session, number := range w.loaded {
		if number > r.Config {
			w.violate(r.Name, "job %s is as configuration %d has it, while session %s has %d", r.Name, r.Config, tail(session), number)
		}
	}
}
