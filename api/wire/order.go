package wire

import (
	"encoding/json"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// OrderKind is what was ordered.
type OrderKind string

const (
	OrderRun      OrderKind = "run"      // one run at a time to come
	OrderBackfill OrderKind = "backfill" // runs of past due times
)

// OrderState is how an order stands.
type OrderState string

const (
	OrderOpen      OrderState = "open"
	OrderDone      OrderState = "done"      // the run was made; of a backfill, all its runs were made and have ended
	OrderSkipped   OrderState = "skipped"   // the time of the run came, and the job's policies did not let it run
	OrderCancelled OrderState = "cancelled" // by a user, or since its job was removed or its schedule edited; what was made goes on
)

// OrderStates are all states.
var OrderStates = []OrderState{OrderOpen, OrderDone, OrderSkipped, OrderCancelled}

// Order is a run of a job, or a backfill, that a user has asked for later.
type Order struct {
	ID         string          `json:"id"`
	Job        string          `json:"job"`
	Kind       OrderKind       `json:"kind"`
	State      OrderState      `json:"state"`
	By         string          `json:"by,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	EndedAt    time.Time       `json:"ended_at,omitzero"`
	Reason     string          `json:"reason,omitempty"`
	ReasonCode reason.Code     `json:"reason_code,omitempty"`
	At         time.Time       `json:"at,omitzero"`       // of a run: when it starts
	Payload    json.RawMessage `json:"payload,omitempty"` // of a run; absent: the job's
	TaskID     string          `json:"task_id,omitempty"` // of a run that was made
	Backfill   *Backfill       `json:"backfill,omitempty"`
	Causes     []Cause         `json:"causes,omitempty"` // of an open order that was asked for alone: what it waits for, the most important first
}

// NewBackfill asks for runs of the due times of a job in [From, To), which lie in the past, as its schedule has them.
type NewBackfill struct {
	From       time.Time `json:"from"`
	To         time.Time `json:"to,omitzero"`           // zero: now
	MaxRunning int       `json:"max_running,omitempty"` // of its runs, how many may be open at once on all replicas: 1, its default, to 100
	Rate       jobs.Rate `json:"rate,omitzero"`         // at which runs are made; zero: as fast as MaxRunning lets them
	Again      bool      `json:"again,omitempty"`       // also the due times that have run, or are about to
}

// Backfill is what was asked for, and how far it has come.
type Backfill struct {
	NewBackfill
	DueTimes  int       `json:"due_times"`        // in [From, To), when it was ordered
	Made      int       `json:"made"`             // runs
	Ran       int       `json:"ran"`              // due times that it has left out, as they had run
	Running   int       `json:"running"`          // of the runs made, those that have not ended
	Succeeded int       `json:"succeeded"`        // of these
	Failed    int       `json:"failed"`           // or lost
	Cancelled int       `json:"cancelled"`        // before or after they had started
	Left      int       `json:"left"`             // due times that it has not come to
	Reached   time.Time `json:"reached,omitzero"` // the last due time that it has come to

	OpenTasks []string `json:"open_tasks,omitempty"` // of the runs that have not ended, in due order, 20 at most
}

// BackfillPreview is what a backfill would do.
type BackfillPreview struct {
	NewBackfill
	DueTimes int       `json:"due_times"` // in [From, To)
	Ran      int       `json:"ran"`       // of these, that have run or are about to: they are left out unless Again
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
}

// OrderFilter selects orders.
type OrderFilter struct {
	Job   string
	Kind  OrderKind
	State OrderState
	Page
}
