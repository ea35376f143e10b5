package store

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Output returns what an attempt of a task wrote, as far as it is kept: it is stored when the attempt ends, cut by
// scheduler.Options.OutputLimit, until the retention of outputs has passed. Of a running attempt it is what has arrived, a second or two after it
// was written. Attempts count from 1; attempt 0 is the last one
// that has an output. jobs.ErrNotFound if nothing is kept, or there is no such task.
func (s *Store) Output(ctx context.Context, id string, attempt int) ([]byte, error) {
	return get(ctx, s.view, "output", func(t *tx) (output []byte, _ error) {
		arrived, err := t.arrived(id, attempt)
		if err != nil || len(arrived) > 0 {
			return arrived, err
		}
		text, args := `SELECT output FROM {outputs} WHERE task_id = ?`, []any{id}
		if attempt != 0 {
			text, args = text+` AND attempt = ?`, append(args, attempt)
		}
		found, err := t.One(text+` ORDER BY attempt DESC LIMIT 1`, args, &output)
		if err == nil && !found {
			err = fmt.Errorf("output of task %.64q, attempt %d: %w", id, attempt, jobs.ErrNotFound)
		}
		return output, err
	})
}

// arrived is what has arrived of the output of a running attempt, be it any or the one given.
//
// Index: primary keys of tasks and chunks.
func (t *tx) arrived(id string, attempt int) ([]byte, error) {
	parts, err := list(t.rows(`SELECT first_byte, data FROM {chunks} WHERE task_id=?
		AND token=(SELECT token FROM {tasks} WHERE id=? AND state+0=2 AND (attempt=? OR 0=?)) ORDER BY first_byte`, id, id, attempt, attempt), (*chunkModel).part)
	text, _ := clip.Join(parts)
	return text, err
}

func (m *chunkModel) part() clip.Part { return clip.Part{At: m.FirstByte, Data: m.Data} }

const (
	followedOutputs = 4  // of attempts that have ended, in one answer
	followedChunks  = 32 // of one that runs
)

// FollowOutput returns what has come of the outputs of a task's attempts since a place in them: first what is kept of attempts that have ended, in their
// order, and then what has arrived of the running one. It reads a row of the task, and what is new. It implements ledger.API.
//
// Index: primary keys of tasks, done, attempts, outputs and chunks.
func (s views) FollowOutput(ctx context.Context, id string, from ledger.OutputAt) (ledger.OutputNews, error) {
	return get(ctx, s.view, "follow output", func(t *tx) (ledger.OutputNews, error) {
		n := ledger.OutputNews{Next: from}
		var err error
		if n.Task, err = t.taskFacts(id); err != nil {
			return n, err
		}
		if n.Next.Attempt == 0 {
			n.Next.Attempt = 1
		}
		ended := n.Task.Attempt
		if n.Task.State == jobs.StateRunning {
			ended--
		}
		if n.Next.Attempt <= ended {
			if err := t.followEnded(&n, ended); err != nil || n.More {
				return n, err
			}
		}
		if n.Task.State == jobs.StateRunning && n.Next.Attempt == n.Task.Attempt {
			err = t.followRunning(&n)
		}
		return n, err
	})
}

// taskFacts is a task without its payload, with its progress.
func (t *tx) taskFacts(id string) (jobs.Task, error) {
	open, err := t.openTasks(taskFacts+", progress, LENGTH(payload) AS payload_size", " WHERE id=?", id)
	if err != nil || len(open) > 0 {
		if err != nil {
			return jobs.Task{}, err
		}
		return open[0].Task, nil
	}
	done, err := list(t.rows("SELECT "+doneFacts+", LENGTH(payload) AS payload_size FROM {done} WHERE id=?", id), (*taskFields).task)
	if err == nil && len(done) == 0 {
		err = fmt.Errorf("task %.64q: %w", id, jobs.ErrNotFound)
	}
	if err != nil {
		return jobs.Task{}, err
	}
	return done[0], nil
}

// followEnded tells the outputs of attempts up to the last that has ended.
func (t *tx) followEnded(n *ledger.OutputNews, last int) error {
	at := n.Next
	if at.Token != 0 { // where it was followed before, it may be another one by now that began again
		token := n.Task.Token
		if at.Attempt < n.Task.Attempt {
			if _, err := t.One("SELECT token FROM {attempts} WHERE task_id=? AND attempt=?", []any{n.Task.ID, at.Attempt}, &token); err != nil {
				return err
			}
		}
		if token != at.Token {
			at.Byte = 0
		}
	}
	read := 0
	err := each(t.rows("SELECT attempt, output, spans FROM {outputs} WHERE task_id=? AND attempt>=? AND attempt<=? ORDER BY attempt LIMIT ?",
		n.Task.ID, at.Attempt, last, followedOutputs), func(m *outputModel) {
		if m.Attempt != at.Attempt {
			at.Byte = 0
		}
		for _, news := range clip.Spans(m.Spans).After(m.Output, at.Byte) {
			n.Parts = append(n.Parts, ledger.OutputPart{Attempt: m.Attempt, News: news})
		}
		n.Next = ledger.OutputAt{Attempt: m.Attempt + 1}
		read++
	})
	if err != nil {
		return err
	}
	if n.More = read == followedOutputs && n.Next.Attempt <= last; !n.More {
		n.Next = ledger.OutputAt{Attempt: last + 1}
	}
	return nil
}

// followRunning tells what has arrived of the running attempt. Chunks that were told are not read again, however short they are: each one that is
// moves n.Next on.
func (t *tx) followRunning(n *ledger.OutputNews) error {
	if n.Next.Token != n.Task.Token {
		n.Next = ledger.OutputAt{Attempt: n.Task.Attempt, Token: n.Task.Token}
	}
	parts, err := list(t.rows("SELECT first_byte, data FROM {chunks} WHERE task_id=? AND token=? AND first_byte>? AND first_byte+LENGTH(data)>? ORDER BY first_byte LIMIT ?",
		n.Task.ID, n.Task.Token, n.Next.Byte-ledger.ChunkBytes, n.Next.Byte, followedChunks), (*chunkModel).part)
	if err != nil {
		return err
	}
	for _, news := range clip.AfterParts(parts, n.Next.Byte) {
		n.Parts = append(n.Parts, ledger.OutputPart{Attempt: n.Task.Attempt, News: news})
		n.Next.Byte = news.At + int64(len(news.Data))
	}
	n.More = len(parts) == followedChunks
	return nil
}
