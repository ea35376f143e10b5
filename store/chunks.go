package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// WriteOutput writes chunks of what running tasks write, each under its token, in one transaction. The answer has the order of chunks. It says whether the row
// still belonged to the session, and the session was not dead; others are not written. To write one again is harmless. It implements ledger.Tasks.
//
// The rows of the tasks are locked, so that no end of an attempt comes between: the end deletes the chunks.
//
// Errors: jobs.ErrUnavailable. Any other error is the database's refusal: nothing was written.
func (s replica) WriteOutput(ctx context.Context, session string, chunks []ledger.Chunk) ([]bool, error) {
	if len(chunks) == 0 {
		return nil, nil
	}
	var ours []bool
	err := s.sure(ctx, "write output", func(t *tx) (err error) {
		ours, err = t.writeChunks(session, chunks)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ours, nil
}

// writeChunks has one statement to lock the tasks, and one to write; a third one where chunks go.
//
// Index: primary keys.
func (t *tx) writeChunks(session string, chunks []ledger.Chunk) ([]bool, error) {
	sorted := slices.SortedFunc(slices.Values(chunks), func(a, b ledger.Chunk) int {
		return cmp.Or(strings.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Token, b.Token), cmp.Compare(a.First, b.First))
	})
	owned := map[claimed]bool{}
	for part := range slices.Chunk(sorted, sqlkit.MaxRows) {
		err := each(t.rows("SELECT id, token FROM {tasks}{by_key} WHERE "+ownedBy+" ORDER BY id{for_update}",
			sqlkit.Rows(part, func(c ledger.Chunk) []any { return []any{c.TaskID, c.Token} }), session, session),
			func(m *taskFields) { owned[claimed{m.ID, m.Token}] = true })
		if err != nil {
			return nil, err
		}
	}
	var rows [][]any
	var forget []ledger.Chunk
	for _, c := range sorted {
		if !owned[claimed{c.TaskID, c.Token}] {
			continue
		}
		rows = append(rows, []any{c.TaskID, c.Token, c.First, c.Data})
		if c.Forget > ledger.HeadKept {
			forget = append(forget, c)
		}
	}
	if err := t.Upsert("{chunks} (task_id, token, first_byte, data)", "task_id, token, first_byte", rows, "data"); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(forget, sqlkit.MaxRows) {
		_, err := t.Exec("{delete} {each}{chunks} AS t{by_key} WHERE first_byte>=? AND first_byte<{int before} AND {in name task_id, int token}",
			sqlkit.Rows(part, func(c ledger.Chunk) []any { return []any{c.Forget, c.TaskID, c.Token} }), ledger.HeadKept)
		if err != nil {
			return nil, err
		}
	}
	ours := make([]bool, len(chunks))
	for i, c := range chunks {
		ours[i] = owned[claimed{c.TaskID, c.Token}]
	}
	return ours, nil
}

// chunksOf are the chunks of attempts as parts of their outputs.
//
// Index: primary key of chunks.
func (t *tx) chunksOf(of []claimed) (map[claimed][]clip.Part, error) {
	parts := map[claimed][]clip.Part{}
	err := each(t.rows("SELECT task_id, token, first_byte, data FROM {chunks} WHERE {in name task_id, int token}",
		sqlkit.Rows(of, func(c claimed) []any { return []any{c.id, c.token} })), func(m *chunkModel) {
		of := claimed{m.TaskID, m.Token}
		parts[of] = append(parts[of], clip.Part{At: m.FirstByte, Data: m.Data})
	})
	return parts, err
}

// endChunks deletes the chunks of attempts that end here. What has no output beside its end, as a worker that wrote with its heartbeats, or a replica that died,
// has what arrived as its output.
//
// Index: primary key of chunks.
func (t *tx) endChunks(moves []move) error {
	var chunked []claimed
	var arrived []*move
	for i := range moves {
		m := &moves[i]
		if !m.chunks {
			continue
		}
		chunked = append(chunked, claimed{m.ID, m.Token})
		if len(m.output) == 0 && !m.never {
			arrived = append(arrived, m)
		}
	}
	for part := range slices.Chunk(arrived, chunkedAtOnce) {
		parts, err := t.chunksOf(mapped(part, func(m *move) claimed { return claimed{m.ID, m.Token} }))
		if err != nil {
			return err
		}
		for _, m := range part {
			m.output, m.spans = clip.Join(parts[claimed{m.ID, m.Token}])
			if m.output = clip.Bytes(m.output, limits.Output); m.orphaned && len(m.output) > 0 {
				m.output = append(m.output, notArrived...)
			}
		}
	}
	for part := range slices.Chunk(chunked, sqlkit.MaxRows) {
		_, err := t.Exec("{delete} {chunks} AS t{by_key} WHERE {in name task_id, int token}",
			sqlkit.Rows(part, func(c claimed) []any { return []any{c.id, c.token} }))
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// chunkedAtOnce is of how many attempts the chunks are read at once: each may have 200 KiB.
	chunkedAtOnce = 100
	// notArrived ends what is kept of an attempt whose replica or worker died.
	notArrived = "\n[lost: what was written after this did not arrive]\n"
)

// chunked are those of the tasks of which there are chunks.
//
// Index: primary key of chunks.
func (t *tx) chunked(tasks []openTask) (map[string]bool, error) {
	found, err := column[string](t.rows("SELECT DISTINCT task_id FROM {chunks} WHERE {in name task_id}", sqlkit.Keys(mapped(tasks, openTask.id))))
	are := map[string]bool{}
	for _, id := range found {
		are[id] = true
	}
	return are, err
}

// replaceOutputs writes the outputs of late ends in place of what had arrived before.
func (t *tx) replaceOutputs(now time.Time, late []move) error {
	var rows [][]any
	for _, m := range late {
		if len(m.output) > 0 {
			rows = append(rows, []any{m.ID, m.Attempt, m.output, micros(now), string(m.spans)})
		}
	}
	return t.Upsert("{outputs} (task_id, attempt, output, created_at, spans)", "task_id, attempt", rows)
}
