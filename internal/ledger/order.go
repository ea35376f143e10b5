package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

const (
	// MostBackfilled is how many due times one backfill may be about.
	MostBackfilled = 100_000
	// MostBackfilling is how many runs of one backfill may be open at once.
	MostBackfilling = 100
	// RanLooked is how many rows of the ledger a decision reads to see which due times of a backfill have run.
	RanLooked = 1000
)

// Order is a run of a job, or a backfill, that a user has asked for later.
type Order struct {
	ID, Job    string
	Kind       wire.OrderKind
	State      wire.OrderState
	By         string
	Reason     string
	ReasonCode reason.Code
	CreatedAt  time.Time
	NextAt     time.Time // when to look at it next, by the database's time; zero once it has ended
	EndedAt    time.Time
	Asked      Asked
	Progress   OrderProgress
}

// Asked is what a user has asked for.
type Asked struct {
	At      time.Time       `json:"at,omitzero"`       // of a run: when it starts
	Payload json.RawMessage `json:"payload,omitempty"` // of a run; nil: the job's

	Backfill *wire.NewBackfill `json:"backfill,omitempty"`
	Schedule string            `json:"schedule,omitempty"`  // the hash of the schedule that a backfill is of
	DueTimes int               `json:"due_times,omitempty"` // of a backfill
}

// OrderProgress is how far an order has come. It is written in the transaction that makes its runs.
type OrderProgress struct {
	TaskID string `json:"task_id,omitempty"` // of a run

	Cursor    time.Time  `json:"cursor,omitzero"` // a backfill has made or left out the due times up to here
	Bucket    Bucket     `json:"bucket,omitempty"`
	Made      int        `json:"made,omitempty"`
	Ran       int        `json:"ran,omitempty"` // left out
	Succeeded int        `json:"succeeded,omitempty"`
	Failed    int        `json:"failed,omitempty"`
	Cancelled int        `json:"cancelled,omitempty"`
	Open      []OrderRun `json:"open,omitempty"` // made, and not counted as ended, in due order
}

// OrderRun is a run that was made for an order.
type OrderRun struct {
	At   time.Time `json:"at"`
	Seq  int       `json:"seq"`
	Task string    `json:"task"`
}

// OrderState is an order, locked, with what the ledger has of it.
type OrderState struct {
	Order
	Ended map[string]jobs.State // how tasks of Progress.Open have ended, by id; "" is not known any more
	Ran   []time.Time           // due times behind Progress.Cursor that have run or are about to, sorted; read unless it is to run them again
	RanTo time.Time             // Ran has all of them up to here; zero: all
}

// DueOrder is an open order whose time has come.
type DueOrder struct {
	ID, Job string
	Kind    wire.OrderKind
	NextAt  time.Time
}

// HasRun reports whether a row of the ledger is of a run that has started, or is about to.
func HasRun(o jobs.Outcome) bool { return o != jobs.Skipped && o != jobs.Missed }

// Ends counts the runs that have ended, by their triggers, and keeps the others.
func (p *OrderProgress) Ends(ended map[string]jobs.State) {
	var open []OrderRun
	for _, r := range p.Open {
		end, is := ended[r.Task]
		switch {
		case !is:
			open = append(open, r)
		case end == jobs.StateSucceeded:
			p.Succeeded++
		case end == jobs.StateFailed || end == jobs.StateLost:
			p.Failed++
		default:
			p.Cancelled++
		}
	}
	p.Open = open
}

// End is how a run of an order has ended, by its trigger; false while it is open.
func End(g jobs.Trigger) (end jobs.State, ended bool) {
	switch g.Outcome {
	case "":
		return "", false
	case jobs.Ran:
		return g.Result, true
	case jobs.Lost:
		return jobs.StateLost, true
	}
	return jobs.StateCancelled, true
}

// Close ends the order at a time.
func (o *Order) Close(now time.Time, s wire.OrderState, code reason.Code, why string) {
	o.State, o.ReasonCode, o.Reason, o.EndedAt, o.NextAt = s, code, why, now, time.Time{}
}

// StoppedBy is the reason of an order that a user has cancelled.
func StoppedBy(by string) string {
	if by == "" {
		return "cancelled"
	}
	return "cancelled by " + by
}

// NotOpen is the error about an order that has ended.
func (o Order) NotOpen() error {
	return fmt.Errorf("order %s: %w: it is %s since %s", o.ID, jobs.ErrConflict, o.State, o.EndedAt.UTC().Format(time.RFC3339))
}

// View is what people see of it. ended are those of its open runs.
func (o Order) View(ended map[string]jobs.State) wire.Order {
	v := wire.Order{
		ID: o.ID, Job: o.Job, Kind: o.Kind, State: o.State, By: o.By, CreatedAt: o.CreatedAt, EndedAt: o.EndedAt, Reason: o.Reason, ReasonCode: o.ReasonCode,
		At: o.Asked.At, Payload: o.Asked.Payload, TaskID: o.Progress.TaskID,
	}
	if b := o.Asked.Backfill; b != nil {
		p := o.Progress
		p.Ends(ended)
		v.Backfill = &wire.Backfill{
			NewBackfill: *b, DueTimes: o.Asked.DueTimes, Made: p.Made, Ran: p.Ran, Running: len(p.Open), Succeeded: p.Succeeded, Failed: p.Failed, Cancelled: p.Cancelled,
			Left: max(0, o.Asked.DueTimes-p.Made-p.Ran), Reached: p.Cursor,
		}
		for _, r := range p.Open[:min(len(p.Open), WhyTasks)] {
			v.Backfill.OpenTasks = append(v.Backfill.OpenTasks, r.Task)
		}
		if p.Made+p.Ran == 0 {
			v.Backfill.Reached = time.Time{}
		}
	}
	return v
}

// Check refuses what has passed, or has not passed yet.
func (o Order) Check(now time.Time) error {
	switch b := o.Asked.Backfill; {
	case b == nil && !o.Asked.At.After(now):
		return &jobs.FieldError{Path: "at", Problem: fmt.Sprintf("%s has passed, by the database's time; give a later time, or none for a run now", o.Asked.At.UTC().Format(time.RFC3339))}
	case b != nil && b.To.After(now):
		return &jobs.FieldError{Path: "to", Problem: "is in the future, by the database's time; a backfill is of past due times"}
	}
	return nil
}

// Begin opens the order.
func (o *Order) Begin(now time.Time) {
	o.State, o.CreatedAt, o.NextAt = wire.OrderOpen, now, o.Asked.At
	if b := o.Asked.Backfill; b != nil {
		o.NextAt, o.Progress.Cursor = now, b.From.Add(-time.Microsecond)
	}
}
