package store

import (
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// openTask is a row of {tasks}, or of {done}, with the columns that only the store uses.
type openTask struct {
	jobs.Task
	row         int  // of {tasks}: rowReady, rowWaits or rowRunning
	late        bool // of {done}: its own result came after it was lost
	session     string
	cancel      string
	mayRunUntil time.Time
}

// taskColumns and doneColumns are the columns of taskFields in {tasks} and in {done}; taskFacts and doneFacts are the same without
// the payload, which may be large.
var (
	taskColumns = columnsOf(taskFields{}, "finished_at", "payload_size")
	doneColumns = columnsOf(taskFields{}, "payload_size")
	taskFacts   = columnsOf(taskFields{}, "finished_at", "payload_size", "payload")
	doneFacts   = columnsOf(taskFields{}, "payload_size", "payload")
)

const openColumns = ", session_id, cancel, may_run_until"

// openTasks reads rows of {tasks} in the order of the statement; where is what follows the table's
// name.
func (t *tx) openTasks(columns, where string, args ...any) ([]openTask, error) {
	return list(t.rows("SELECT "+columns+openColumns+" FROM {tasks}"+where, args...), func(m *taskModel) openTask {
		return openTask{Task: m.Task.task(), row: rowState(m.Task.State), session: m.SessionID, cancel: m.Cancel, mayRunUntil: fromMicros(m.MayRunUntil)}
	})
}

func (r openTask) id() string     { return r.ID }
func (r openTask) key() ledgerKey { return ledgerKey{r.Job, micros(r.ScheduledAt), r.Seq} }

// lockOrder sorts tasks by their primary key.
func lockOrder(a, b openTask) int { return strings.Compare(a.ID, b.ID) }
