package work

import (
	"strings"
	"time"
)

const (
	// unresponsiveMargin is how long after the end of its grace period an attempt may go on before it is logged.
	unresponsiveMargin = 5 * time.Second
	// unresponsiveEvery is how often it is logged again.
	unresponsiveEvery = time.Minute
)

// logUnresponsive logs an attempt that goes on after it was told to stop: nothing can end a Go function that ignores its
// context, and the attempt keeps its worker and its slot.
func (e *Executor) logUnresponsive(a *attempt) {
	why, reason := a.stoppedBy()
	if why == notStopped {
		return
	}
	now := time.Now()
	if a.told.IsZero() {
		a.told = now
		a.logAt = now.Add(a.grace(e.opt.StopGrace, e.log) + unresponsiveMargin)
	}
	if now.Before(a.logAt) {
		return
	}
	a.logAt = now.Add(unresponsiveEvery)
	e.log.Warn("an attempt goes on after it was told to stop; its handler must return once its context is done",
		"task", a.task.ID, "job", a.task.Job, "pool", a.task.Pool, "kind", a.task.Kind, "attempt", a.task.Attempt,
		"reason", reason, "told", now.Sub(a.told).Round(time.Second).String()+" ago")
}

// name is the attempt's task, job, kind and pool, for messages.
func (a *attempt) name() string {
	parts := []string{"task " + a.task.ID}
	if a.task.Job != "" {
		parts = append(parts, "job "+a.task.Job)
	}
	if a.task.Kind != "" {
		parts = append(parts, "kind "+a.task.Kind)
	}
	return strings.Join(append(parts, "pool "+a.task.Pool), " of ")
}
