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
func (s *Executor) Drain() error {
	for _, f := range s.feeders {
		f.handBackQueue()
	}
	s.recorder.makeRoom() // nothing more is taken
	done := s.attempts.drain()
	s.log.Info("draining", "running", len(s.register.attempts()), "timeout", s.opt.DrainTimeout.String())
	if s.finish(done, s.opt.DrainTimeout) {
		return s.settle()
	}
	// Each handler has its own grace period to end and, if it is a process, is killed then.
	if s.finish(done, s.stopAll(time.Time{})+drainMargin) {
		return s.settle()
	}
	killBy := s.killBy()
	s.stopAll(killBy)
	timer := time.NewTimer(time.Until(killBy) + drainMargin)
	defer timer.Stop()
	select {
	case <-done:
		return s.settle()
	case <-timer.C:
	}
	var deaf []string
	for _, a := range s.register.attempts() {
		deaf = append(deaf, a.name())
	}
	_ = s.settle()
	return fmt.Errorf("scheduler: still running after the last wait: %s", strings.Join(deaf, ", "))
}

// halting reports whether the replica is told to stop at once.
func (s *Executor) halting() bool {
	select {
	case <-s.halted:
		return true
	default:
		return false
	}
}

// finish waits for done, at most d, and no longer once the replica is told to stop at once.
func (s *Executor) finish(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-s.halted:
	}
	return false
}

// settleTimeout bounds how long a stopping replica tries to record its last results.
const settleTimeout = 10 * time.Second

// settle waits until every result is acknowledged.
func (s *Executor) settle() error {
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-s.register.allRecorded():
		return nil
	case <-timer.C:
		return fmt.Errorf("scheduler: the last results were not recorded within %v; their tasks are reaped when this replica's session expires", settleTimeout)
	}
}
