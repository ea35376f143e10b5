package work

import (
	"fmt"
	"strings"
	"time"
)

// drainMargin is how long after its grace period the drain waits for work, before and after the work is told to end at
// once.
const drainMargin = 2 * time.Second

// Drain ends the replica's work. The error names work that did not stop.
//
//  1. hand back what is claimed and not started
//  2. wait for what runs, for the drain timeout
//  3. tell the rest to stop, and wait for the longest grace period among it; such an attempt is lost, reason "drained", and
//     on_lost decides at once
//  4. tell the rest to end at once, and wait drainMargin
//  5. wait until the store has acknowledged every result (settle)
//
// Halt ends the waits 2 and 3 at once.
func (e *Executor) Drain() error {
	for _, f := range *e.feeders.all.Load() {
		f.handBackQueue()
	}
	e.recorder.makeRoom() // nothing more is taken
	done := e.attempts.drain()
	e.log.Info("draining", "running", len(e.register.attempts()), "timeout", e.opt.DrainTimeout.String())
	if e.finish(done, e.opt.DrainTimeout) {
		return e.settle()
	}
	// Each handler has its own grace period to end and, if it is a process, is killed then.
	if e.finish(done, e.stopAll(time.Time{})+drainMargin) {
		return e.settle()
	}
	killBy := e.killBy()
	e.stopAll(killBy)
	timer := time.NewTimer(time.Until(killBy) + drainMargin)
	defer timer.Stop()
	select {
	case <-done:
		return e.settle()
	case <-timer.C:
	}
	var unresponsive []string
	for _, a := range e.register.attempts() {
		unresponsive = append(unresponsive, a.name())
	}
	_ = e.settle()
	return fmt.Errorf("scheduler: still running after the last wait: %s", strings.Join(unresponsive, ", "))
}

// halting reports whether the replica is told to stop at once.
func (e *Executor) halting() bool {
	select {
	case <-e.halted:
		return true
	default:
		return false
	}
}

// finish waits for done, at most d, and no longer once the replica is told to stop at once.
func (e *Executor) finish(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-e.halted:
	}
	return false
}

// settleTimeout bounds how long a stopping replica tries to record its last results.
const settleTimeout = 10 * time.Second

// settle waits until every result is acknowledged.
func (e *Executor) settle() error {
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-e.register.allRecorded():
		return nil
	case <-timer.C:
		return fmt.Errorf("scheduler: the last results were not recorded within %v; their tasks are reaped when this replica's session expires", settleTimeout)
	}
}
