package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Each attempt reports its token, as progress and as the result of its task, and writes it: so a row shows which attempt it has either from.

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

// wrote is what an attempt writes first.
func wrote(token int64) string { return fmt.Sprintf("token %d\n", token) }

// watchChunk: what is written of an output is of the attempt that runs, and from its beginning. With w.mu held.
func (w *world) watchChunk(c memstore.Chunk) {
	w.counted["chunk"]++
	if token, runs := w.owned[c.TaskID]; !runs || token != c.Token || c.First != 0 || !strings.HasPrefix(string(c.Data), wrote(c.Token)) {
		w.violate(c.TaskID, "task %s runs under token %d (%v), and has from token %d, byte %d, the output %q", c.TaskID, token, runs, c.Token, c.First, c.Data)
	}
}

// judgeChunks: what was kept of the output of a running attempt went with its end. With w.mu held.
func (w *world) judgeChunks(rows memstore.Rows) {
	for _, c := range rows.Chunks {
		if r := rows.Tasks[c.TaskID]; r.State != memstore.Running || r.Token != c.Token {
			w.violate(c.TaskID, "task %s has ended the attempt with token %d, and what was kept of its output while it ran is still there", c.TaskID, c.Token)
		}
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
