package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const notArrived = "\n[lost: what was written after this did not arrive]\n"

// WriteOutput implements ledger.Tasks.
func (s *Store) WriteOutput(ctx context.Context, session string, chunks []ledger.Chunk) (ours []bool, err error) {
	err = s.tx(ctx, "write output", func(t *tx) error {
		ours = make([]bool, len(chunks))
		for i, c := range chunks {
			r := t.tasks.rows[c.TaskID]
			owner, found := t.sessions.rows[session]
			if ours[i] = found && !owner.Dead && r.State == Running && r.Session == session && r.Token == c.Token; !ours[i] {
				continue
			}
			put(t, &t.chunks, Chunk{c.TaskID, c.Token, c.First, bytes.Clone(c.Data)})
			for k := range t.chunks.rows {
				if k.TaskID == c.TaskID && k.Token == c.Token && k.First >= ledger.HeadKept && k.First < c.Forget {
					remove(t, &t.chunks, k)
				}
			}
		}
		return nil
	})
	return ours, err
}

func (t *tx) chunksOf(task string, token int64) (parts []clip.Part) {
	for k, c := range t.chunks.rows {
		if k.TaskID == task && k.Token == token {
			parts = append(parts, clip.Part{At: c.First, Data: c.Data})
		}
	}
	slices.SortFunc(parts, func(a, b clip.Part) int { return cmp.Compare(a.At, b.At) })
	return parts
}

// endChunks deletes the chunks of an attempt that ends, which are its output if it has no other.
func (t *tx) endChunks(m *move) {
	if !m.chunks {
		return
	}
	parts := t.chunksOf(m.row.ID, m.row.Token)
	if len(m.output) == 0 && !m.never {
		m.output, m.spans = clip.Join(parts)
		if len(m.output) > 0 {
			m.output = append(m.output, m.lost...)
		}
	}
	for k := range t.chunks.rows {
		if k.TaskID == m.row.ID && k.Token == m.row.Token {
			remove(t, &t.chunks, k)
		}
	}
}

// Output implements ledger.API.
func (s *Store) Output(ctx context.Context, id string, attempt int) (text []byte, err error) {
	err = s.tx(ctx, "output", func(t *tx) error {
		text = nil
		r := t.tasks.rows[id]
		if r.State == Running && (attempt == 0 || attempt == r.Attempt) {
			if text, _ = clip.Join(t.chunksOf(id, r.Token)); len(text) > 0 {
				return nil
			}
		}
		last := 0
		for k, o := range t.outputs.rows {
			if k.TaskID == id && k.Attempt > last && (attempt == 0 || attempt == k.Attempt) {
				text, last = o.Output, k.Attempt
			}
		}
		if last == 0 {
			return fmt.Errorf("output of task %.64q, attempt %d: %w", id, attempt, jobs.ErrNotFound)
		}
		return nil
	})
	return text, err
}

// FollowOutput implements ledger.API.
func (s *Store) FollowOutput(ctx context.Context, id string, from ledger.OutputAt) (n ledger.OutputNews, err error) {
	err = s.tx(ctx, "follow output", func(t *tx) error {
		n = ledger.OutputNews{Next: from}
		n.Next.Attempt = max(n.Next.Attempt, 1)
		ended := 0
		if r, open := t.tasks.rows[id]; open {
			if n.Task, ended = bare(r.task()), r.Attempt; r.State == Running {
				ended--
			}
		} else if r, done := t.done.rows[id]; done {
			n.Task, ended = bare(r.task()), r.Attempt
		} else {
			return fmt.Errorf("task %.64q: %w", id, jobs.ErrNotFound)
		}
		tokens := map[int]int64{n.Task.Attempt: n.Task.Token}
		for k, a := range t.attempts.rows {
			if k.TaskID == id {
				tokens[k.Attempt] = a.Token
			}
		}
		add := func(attempt int, all []clip.News) {
			for _, news := range all {
				n.Parts = append(n.Parts, ledger.OutputPart{Attempt: attempt, News: news})
				n.Next.Byte = news.At + int64(len(news.Data))
			}
		}
		for ; n.Next.Attempt <= ended; n.Next = (ledger.OutputAt{Attempt: n.Next.Attempt + 1}) {
			if n.Next.Token != 0 && n.Next.Token != tokens[n.Next.Attempt] {
				n.Next.Byte = 0
			}
			if o, kept := t.outputs.rows[attemptKey{id, n.Next.Attempt}]; kept {
				add(n.Next.Attempt, clip.Spans(o.Spans).After(o.Output, n.Next.Byte))
			}
		}
		if n.Task.State == jobs.StateRunning && n.Next.Attempt == n.Task.Attempt {
			if n.Next.Token != n.Task.Token {
				n.Next = ledger.OutputAt{Attempt: n.Task.Attempt, Token: n.Task.Token}
			}
			add(n.Task.Attempt, clip.AfterParts(t.chunksOf(id, n.Task.Token), n.Next.Byte))
		}
		return nil
	})
	return n, err
}
