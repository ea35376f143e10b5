package sim

import (
	"fmt"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Each attempt reports its token, as progress and as the result of its task: so a row shows which attempt it has either from.

func report(t jobs.Task) error {
	if err := t.Progress(0.5, strconv.FormatInt(t.Token, 10)); err != nil {
		return err
	}
	return t.SetResult(t.Token)
}

// watchProgress: a task has the progress of the attempt that runs, and of no other. With w.mu held.
func (w *world) watchProgress(r memstore.Task) {
	if r.Progress == "" {
		return
	}
	w.counted["progress"]++
	if own := fmt.Sprintf("500000 %d", r.Token); r.State != memstore.Running || r.Progress != own {
		w.violate(r.ID, "task %s, state %d token %d, has the progress %q", r.ID, r.State, r.Token, r.Progress)
	}
}

// judgeResults: the result of a task is that of the attempt that ended it, and each that succeeded has one. With w.mu held.
func (w *world) judgeResults(rows memstore.Rows) {
	for id, r := range rows.Done {
		result, has := rows.Results[id]
		switch own := strconv.FormatInt(r.Token, 10); {
		case has && string(result.Result) != own:
			w.violate(id, "task %s ended with token %d, and its result is %s", id, r.Token, result.Result)
		case !has && r.State == string(jobs.StateSucceeded) && r.ReasonCode != reason.RecordRefused:
			w.violate(id, "task %s succeeded, and its result is missing", id)
		}
	}
	for id := range rows.Results {
		if _, ended := rows.Done[id]; !ended {
			w.violate(id, "task %s has a result, and has not ended", id)
		}
	}
}
