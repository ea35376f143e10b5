package api

import (
	"net/http"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

const (
	refusedBurst    = 20 // refused writes of one party that have a row each, at once
	refusedInterval = 10 * time.Second
	refusedParties  = 4096             // that are remembered at most
	refusedHold     = 30 * time.Second // then what was only counted is written
	refusedKinds    = 1024             // that are counted apart
)

// refused keeps refused writes from filling the audit: beyond a bucket per party they are counted, and each kind gets
// one row with its count, within refusedHold. None is left out. The row has their object if it is the same for all.
type refused struct {
	write func(wire.AuditEntry) error

	mu      sync.Mutex
	buckets buckets[string]
	held    map[refusal]wire.AuditEntry
	timer   *time.Timer    // set while something is held
	timed   sync.WaitGroup // the timer, until it is stopped or has written
	closed  bool           // nothing is held any more
	writing sync.Mutex     // held before mu
}

// refusal is the key by which refused writes are counted together.
type refusal struct {
	party, role, action string
	object              string // of what could not be written alone: each would have had a row of its own
	status              int
}

// hold counts a refused write, unless it gets its own row.
func (f *refused) hold(party string, e wire.AuditEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.buckets.take(party, time.Now(), refusedBurst, refusedInterval, refusedParties) == 0 {
		return false
	}
	f.first(party, "", e)
	return true
}

// keep holds a write whose row could not be written, and its object; false after close.
func (f *refused) keep(party string, e wire.AuditEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.first(party, e.Object, e)
	}
	return !f.closed
}

// first counts one write.
func (f *refused) first(party, object string, e wire.AuditEntry) {
	e.Count = 1
	f.count(refusal{party, e.Role, e.Action, object, e.Status}, e)
}

// count adds e to the held counts. Fields that differ within a count are cleared.
func (f *refused) count(kind refusal, e wire.AuditEntry) {
	same, known := f.held[kind]
	if !known && kind.object != "" && len(f.held) >= refusedKinds/2 { // the other half is for other parties
		kind.object = ""
		same, known = f.held[kind]
	}
	if !known && len(f.held) >= refusedKinds {
		kind.party, kind.role, e.Who, e.Role, e.Remote = "", "", "", "", ""
		same, known = f.held[kind]
	}
	if known {
		e.Count += same.Count
		if same.Object != e.Object {
			e.Object = ""
		}
		if same.Remote != e.Remote {
			e.Remote = ""
		}
	}
	if f.held == nil {
		f.held = map[refusal]wire.AuditEntry{}
	}
	f.held[kind] = e
	if f.timer == nil {
		f.timed.Add(1)
		f.timer = time.AfterFunc(refusedHold, func() {
			defer f.timed.Done()
			f.flush(false)
		})
	}
}

// close is the last flush. Nothing is written after it.
func (f *refused) close() (left []wire.AuditEntry, err error) {
	left, err = f.flush(true)
	f.timed.Wait()
	return left, err
}

// flush writes the held counts. Those that cannot be written are returned; they stay for the next flush, unless this is
// the last.
func (f *refused) flush(last bool) (left []wire.AuditEntry, err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	all := f.held
	f.held = nil
	f.closed = f.closed || last
	if f.timer != nil && f.timer.Stop() {
		f.timed.Done()
	}
	f.timer = nil
	f.mu.Unlock()
	for kind, e := range all {
		failed := f.write(e)
		if failed == nil {
			continue
		}
		left, err = append(left, e), failed
		f.mu.Lock()
		if !f.closed {
			f.count(kind, e)
		}
		f.mu.Unlock()
	}
	return left, err
}

// isRefused: the request was refused before anything was changed.
func isRefused(status int) bool {
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}
