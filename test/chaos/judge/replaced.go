package judge

import (
	"regexp"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// replacedBy is how a reason names the run that took the place of another one, also that of a result that came late, and replacedBefore the due time that did before it had a task.
var (
	replacedBy     = regexp.MustCompile(`^(?:late: )?replaced by the run of (\S+) \(task (\S+)\)$`)
	replacedBefore = regexp.MustCompile(`^replaced by the due time (\S+), before it started$`)
)

// replaced returns what is wrong with a row that says that a newer run took its place: that is of the same job and came later, as a task of its own; of the due times
// of one decision it is a later one, which has a task.
func (w witness) replaced(r history.Row, job history.Job) string {
	if job.Concurrency != "replace" {
		return "the job does not replace"
	}
	if m := replacedBefore.FindStringSubmatch(r.Reason); m != nil {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		by, there := w.written[ledgerKey{r.Job, at.UnixMicro(), 0}]
		switch {
		case err != nil || !there || by.After.TaskID == "":
			return "that due time has no run"
		case r.TaskID != "" || r.Seq > 0 || by.After.At <= r.At || by.After.DecidedAt != r.DecidedAt:
			return "that due time was not decided with it, after it"
		}
		return ""
	}
	m := replacedBy.FindStringSubmatch(r.Reason)
	switch {
	case m == nil:
		return "that names no run"
	case r.TaskID == "":
		return "it had no task"
	case w.tasks[m[2]] != r.Job || w.born[m[2]] == 0:
		return "the job has no such task"
	case dbTime(w.at[m[2]]).UTC().Format(time.RFC3339Nano) != m[1]:
		return "that task is of another due time"
	case w.born[m[2]] <= w.born[r.TaskID]:
		return "that task is not newer"
	}
	return ""
}
