package store

import (
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// openTask is a row of {tasks} with what only the store looks at.
type openTask struct {
	jobs.Task
	row         int // rowReady, rowWaits or rowRunning
	session     string
	cancel      string
	mayRunUntil time.Time
}

const openColumns = ", state AS row_state, session_id, cancel, may_run_until"

// taskFacts and doneFacts are taskColumns and doneColumns but for the payload, which may be large.
var (
	taskFacts = strings.Replace(taskColumns, "payload", "'' AS payload", 1)
	doneFacts = strings.Replace(doneColumns, "payload", "'' AS payload", 1)
)

// openTasks reads rows of {tasks} in the order of the statement; where is what follows the table's
// name.
func (t *tx) openTasks(columns, where string, args ...any) ([]openTask, error) {
	var list []openTask
	err := t.Query("SELECT "+columns+openColumns+" FROM {tasks}"+where, args, func(scan func(...any) error) error {
		var r openTask
		var until int64
		task, err := scanTask(scan, &r.row, &r.session, &r.cancel, &until)
		r.Task, r.mayRunUntil = task, fromMicros(until)
		list = append(list, r)
		return err
	})
	return list, err
}

func (r openTask) id() string     { return r.ID }
func (r openTask) key() ledgerKey { return ledgerKey{r.Job, micros(r.ScheduledAt), r.Seq} }

// lockOrder sorts tasks as their primary key does.
func lockOrder(a, b openTask) int { return strings.Compare(a.ID, b.ID) }
