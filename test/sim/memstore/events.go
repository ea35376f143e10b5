package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// happening is an end that changes how a job or pool stands.
type happening struct {
	job, pool string
	at        int64
	seq       int
	until     int64
	count     int
	task      string
	attempt   int
	replica   string
	ended     int64      // when; 0: now
	event     jobs.Event // EventRecovered: a success, of whatever; "": cancelled
	tells     bool       // a success has an event of its own, too
	reason    string
	code      reason.Code
	failure   string
}

// Event is a row of events.
type Event = event

// ending is what the end of a task means; nil: nobody is told of it.
func ending(r Done) *happening {
	if r.Job == "" && r.Pool == naming.NotificationsPool {
		return nil
	}
	h := &happening{
		job: r.Job, pool: r.Pool, at: r.TriggerAt, seq: r.TriggerSeq, count: 1, task: r.ID, attempt: r.Attempt, replica: r.Replica, ended: r.FinishedAt,
		reason: r.Reason, code: r.ReasonCode, failure: r.Error,
	}
	switch jobs.State(r.State) {
	case jobs.StateFailed:
		h.event = jobs.EventFailed
	case jobs.StateLost:
		h.event = jobs.EventLost
	case jobs.StateSucceeded:
		h.event = jobs.EventRecovered
	}
	return h
}

func (h happening) subject() subject {
	if h.job != "" {
		return subject{"job", h.job}
	}
	return subject{"pool", h.pool}
}

func (h happening) happened(now time.Time) int64 { return cmp.Or(h.ended, micros(now)) }

func (h happening) good() bool { return h.event == jobs.EventRecovered }
func (h happening) bad() bool  { return h.event != "" && !h.good() }

// happened keeps the standings, and writes an event for each happening that is one. What happened in one
// transaction happened at once: where something failed among it, nothing recovered.
func (t *tx) happened(now time.Time, all []happening) error {
	good, bad := map[subject]bool{}, map[subject]bool{}
	last, success := map[subject]int64{}, map[subject]int64{}
	var subjects []subject
	for _, h := range all {
		sub := h.subject()
		if h.job == "" && h.event == "" {
			continue
		}
		good[sub], bad[sub] = good[sub] || h.good(), bad[sub] || h.bad()
		last[sub] = max(last[sub], h.happened(now))
		if h.good() {
			success[sub] = max(success[sub], h.happened(now))
		}
		if !slices.Contains(subjects, sub) {
			subjects = append(subjects, sub)
		}
	}
	recovered := map[subject]bool{}
	for _, sub := range subjects {
		row, exists := t.standing.rows[sub]
		if sub.kind == "pool" && row.Failing == bad[sub] {
			continue
		}
		if !exists {
			row = standing{Kind: sub.kind, Name: sub.name}
		}
		recovered[sub] = row.Failing && good[sub] && !bad[sub]
		row.Failing = bad[sub] || row.Failing && !good[sub]
		if sub.kind == "job" {
			row.EndAt, row.SuccessAt = max(row.EndAt, last[sub]), max(row.SuccessAt, success[sub])
		}
		put(t, &t.standing, row)
	}
	for _, h := range all {
		if h.good() && h.tells {
			success := h
			success.event = jobs.EventSucceeded
			if err := t.keepEvent(now, success); err != nil {
				return err
			}
		}
		if !h.bad() && (!h.good() || !recovered[h.subject()]) {
			continue
		}
		if h.good() {
			delete(recovered, h.subject()) // the first one tells
		}
		if err := t.keepEvent(now, h); err != nil {
			return err
		}
	}
	return nil
}

// started writes the events of tasks that became running.
func (t *tx) started(now time.Time, a ledger.Admission, started []ledger.Started) error {
	for _, e := range a.StartEvents(started) {
		err := t.keepEvent(now, happening{
			job: e.Job, pool: e.Pool, at: micros(e.ScheduledAt), seq: e.Seq, count: e.Count, task: e.TaskID, attempt: e.Attempt, replica: e.Replica, event: e.Event,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) keepEvent(now time.Time, h happening) error {
	id, err := t.s.newID()
	if err != nil {
		return err
	}
	put(t, &t.events, event{
		ID: id, Event: string(h.event), Job: h.job, Pool: h.pool, TriggerAt: h.at, TriggerSeq: h.seq, Until: h.until, Count: h.count,
		TaskID: h.task, Attempt: h.attempt, Replica: h.replica, Reason: h.reason, ReasonCode: h.code, Error: h.failure, HappenedAt: h.happened(now),
	})
	return nil
}
