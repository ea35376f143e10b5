package memstore

import (
	"cmp"
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Finish implements ledger.Tasks.
func (s *Store) Finish(ctx context.Context, session string, results []ledger.Result) (out []ledger.Finished, err error) {
	err = s.tx(ctx, "finish", func(t *tx) error {
		out = make([]ledger.Finished, len(results))
		now := t.now()
		seen := map[string]bool{}
		var ends []happening
		failed, pauses := map[string][]bool{}, map[string]jobs.PauseOn{}
		// What is under way is looked at before what has ended: two results for one task are judged by the
		// rows as they were before both.
		before := map[string]Done{}
		for _, r := range results {
			if row, ended := t.done.rows[r.TaskID]; ended {
				before[r.TaskID] = row
			}
		}
		for i, r := range results {
			r = r.Kept()
			out[i] = ledger.Finished{TaskID: r.TaskID, Finish: ledger.Fenced, Task: &jobs.Task{ID: r.TaskID}}
			row, open := t.tasks.rows[r.TaskID]
			if open {
				became(&out[i], row.task())
			}
			mine := open && row.Token == r.Token
			switch {
			case seen[r.TaskID]:
			case mine && row.State == Running && row.Session == cmp.Or(r.Session, session):
				m := finishing(row, r, now)
				if on := r.PauseOn; on.Of > 0 && (m.end == jobs.StateSucceeded || m.end == jobs.StateFailed) {
					failed[on.Pool], pauses[on.Pool] = append(failed[on.Pool], m.end == jobs.StateFailed), on.PauseOn
				}
				out[i].Finish = ledger.Recorded
				task, end := t.move(now, m)
				became(&out[i], task)
				if row, ended := t.done.rows[r.TaskID]; ended && r.SuspendAfter {
					if err := t.countRun(now, row, m.end); err != nil {
						return err
					}
				}
				if end != nil {
					end.tells = r.Tells
					ends = append(ends, *end)
				}
			case mine && row.State != Running && r.Verdict.Undone():
				out[i].Finish, out[i].Before = ledger.Recorded, true
			default:
				done, ended := before[r.TaskID]
				if end := t.settle(now, r, done, ended, &out[i]); end != nil {
					end.tells = r.Tells
					ends = append(ends, *end)
					if row := t.done.rows[r.TaskID]; r.SuspendAfter && row.State == string(jobs.StateSucceeded) { // what was lost counted before
						if err := t.countRun(now, row, jobs.StateSucceeded); err != nil {
							return err
						}
					}
				}
			}
			seen[r.TaskID] = true
		}
		if err := t.pauseOn(now, pauses, failed); err != nil {
			return err
		}
		return t.happened(now, ends)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// bare is a task without its payload.
func bare(task jobs.Task) jobs.Task {
	task.Payload, task.PayloadSize = nil, 0
	return task
}

// became notes what the row of a result is then.
func became(out *ledger.Finished, task jobs.Task) {
	task = bare(task)
	out.State, out.Task = task.State, &task
}

// finishing plans what a result means for a row that is its writer's.
func finishing(row Task, r ledger.Result, now time.Time) move {
	ended := r.EndedAt(fromMicros(row.StartedAt), now)
	if r.Verdict == ledger.Died {
		m := died(row, r.Code, r.Reason)
		m.ended, m.failure, m.exit, m.output, m.spans, m.chunks, m.value = ended, r.Error, r.ExitCode, r.Output, r.Spans, r.Chunked, r.Value
		return m
	}
	m := move{
		row: row, to: toDone, end: r.State, ended: ended, reason: r.Reason, code: r.Code, failure: r.Error, exit: r.ExitCode, output: r.Output, spans: r.Spans, chunks: r.Chunked,
		value: r.Value, never: r.Verdict.Undone(), due: row.RunAt,
	}
	switch {
	case r.Verdict == ledger.Ended:
	case row.Cancel != "":
		m.end, m.reason, m.code = jobs.StateCancelled, row.Cancel, ledger.CancelCode(row.Cancel)
	case r.Verdict == ledger.Again:
		m.to, m.due = toWait, micros(r.Due(now))
	case r.Verdict == ledger.Snoozed:
		m.to, m.end, m.due = toWait, jobs.StatePending, micros(r.Due(now))
	default:
		m.to, m.end = toReady, jobs.StatePending
	}
	return m
}

// settle judges a result whose row is not its writer's now: written before, late, or refused.
func (t *tx) settle(now time.Time, r ledger.Result, row Done, ended bool, out *ledger.Finished) *happening {
	if ended {
		became(out, row.task())
	}
	end := r.State
	if r.Verdict == ledger.Died {
		end = jobs.StateLost
	}
	state := jobs.State(row.State)
	switch {
	case r.Verdict.Undone():
	case ended && row.Token == r.Token && (state == end || r.Verdict == ledger.Again && state == jobs.StateCancelled):
		out.Finish, out.Before = ledger.Recorded, true
		if row.Late {
			out.Finish = ledger.Late
		}
	case ended && row.Token == r.Token && state == jobs.StateLost && !row.Late:
		out.Finish = ledger.Late
		return t.replaceLost(now, row, r, end, out)
	default:
		for _, a := range t.attempts.rows {
			if a.TaskID == r.TaskID && a.Token == r.Token && a.State == string(end) {
				out.Finish, out.Before = ledger.Recorded, true
			}
		}
	}
	return nil
}

// replaceLost writes the own result of a task that had been given up.
func (t *tx) replaceLost(now time.Time, row Done, r ledger.Result, end jobs.State, out *ledger.Finished) *happening {
	why, code, finished := "late", cmp.Or(r.Code, reason.Late), micros(r.EndedAt(fromMicros(row.StartedAt), now))
	if r.Reason != "" {
		why += ": " + r.Reason
	}
	key := TriggerKey{row.Job, row.TriggerAt, row.TriggerSeq}
	if g, born := t.triggers.rows[key]; row.Job != "" && born && g.TaskID == row.ID && g.Outcome == string(jobs.Lost) {
		before := g.Reason
		g.Outcome, g.Result, g.Reason, g.ReasonCode, g.FinishedAt = string(jobs.Ran), string(end), why, code, finished
		if before != row.Reason { // the run was forced
			g.Reason = appended(before, why)
		}
		put(t, &t.triggers, g)
	}
	row.State, row.Reason, row.ReasonCode, row.Error, row.ExitCode, row.Late, row.FinishedAt = string(end), why, code, r.Error, r.ExitCode, true, finished
	if row.RetriedAs == "" {
		row.Fingerprint = jobs.Fingerprint(row.task())
	}
	put(t, &t.done, row)
	if job, ofJob := t.jobs.rows[row.Job]; ofJob && job.BusyUntil > 0 && (job.Fence == row.Token || job.BusyUntil == row.MayRunUntil) {
		job.BusyUntil = 0
		for _, other := range t.lostOf(row.Job, now) {
			job.BusyUntil = max(job.BusyUntil, micros(other.Until))
		}
		put(t, &t.jobs, job)
	}
	if len(r.Output) > 0 {
		put(t, &t.outputs, output{row.ID, row.Attempt, r.Output, micros(now), string(r.Spans)})
	}
	if len(r.Value) > 0 {
		add(t, &t.results, Result{row.ID, r.Value})
	}
	became(out, row.task())
	return ending(row)
}
