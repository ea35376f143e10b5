package store

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// taskColumns and doneColumns are what scanTask reads, of {tasks} and of {done}.
const (
	taskColumns = `id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, losses,
		max_attempts, on_lost, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, 0 AS finished_at, made_by, tags, payload`
	doneColumns = `id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, losses,
		max_attempts, on_lost, token, replica, retry_of, reason, reason_code, error, exit_code, created_at, started_at, finished_at, made_by, tags, payload`
)

// State of a row in {tasks}. Rows of {done} carry the jobs.State as text.
const (
	rowReady   = 0 // due, may be claimed
	rowWaits   = 1 // for its run_at
	rowRunning = 2
)

// scanTask reads taskColumns or doneColumns, and into more what was selected after them.
func scanTask(scan func(dest ...any) error, more ...any) (jobs.Task, error) {
	var t jobs.Task
	var state, onLost string
	var triggerAt, runAt, createdAt, startedAt, finishedAt int64
	var rank int
	var failure, payload, tags []byte
	dest := []any{
		&t.ID, &t.Pool, &t.Kind, &t.Job, &triggerAt, &t.Seq, &state, &rank, &runAt, &t.Attempt, &t.Lost,
		&t.MaxAttempts, &onLost, &t.Token, &t.Replica, &t.RetryOf, &t.Reason, &t.ReasonCode, &failure, &t.ExitCode, &createdAt, &startedAt, &finishedAt, &t.By, &tags, &payload,
	}
	if err := scan(append(dest, more...)...); err != nil {
		return t, err
	}
	t.State = taskState(state)
	t.OnLost = jobs.OnLost(onLost)
	t.Priority = -rank
	t.ScheduledAt = fromMicros(triggerAt)
	t.RunAt = fromMicros(runAt)
	t.CreatedAt = fromMicros(createdAt)
	t.StartedAt = fromMicros(startedAt)
	t.FinishedAt = fromMicros(finishedAt)
	t.Error = string(failure)
	if len(payload) > 0 {
		t.Payload, t.PayloadSize = payload, len(payload)
	}
	if len(tags) > 0 {
		if err := json.Unmarshal(tags, &t.Tags); err != nil {
			return t, fmt.Errorf("tags of task %s: %w", t.ID, err)
		}
	}
	t.IdempotencyKey = t.Key("")
	return t, nil
}

// taskState understands the states of both tables.
func taskState(row string) jobs.State {
	switch row {
	case strconv.Itoa(rowReady), strconv.Itoa(rowWaits):
		return jobs.StatePending
	case strconv.Itoa(rowRunning):
		return jobs.StateRunning
	}
	return jobs.State(row)
}

// encodeTags is the inverse of what scanTask does with tags.
func encodeTags(tags []string) []byte {
	if len(tags) == 0 {
		return []byte{}
	}
	b, _ := json.Marshal(tags) // strings always encode
	return b
}
