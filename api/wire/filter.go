package wire

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TriggerFilter selects ledger rows, latest first. Zero fields select everything.
type TriggerFilter struct {
	Job     string
	Outcome jobs.Outcome
	Result  jobs.State
	Since   time.Time
	Page
}

// TaskFilter selects tasks, latest id first. Zero fields select everything.
type TaskFilter struct {
	Pool  string
	Job   string
	State jobs.State
	Page
}

// Page is one page of a list: at most Limit rows (1 … 500; 0 = 50) after the row that Cursor
// names. Cursors are opaque; a broken one is jobs.ErrInvalid.
type Page struct {
	Limit  int
	Cursor string
}
