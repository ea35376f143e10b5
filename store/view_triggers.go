package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

const triggerColumns = `job, at, seq, until_at, due_count, cause, by_whom, outcome, reason, reason_code, result, task_id, replica, decided_at, started_at, finished_at`

// Triggers lists ledger rows, latest due time first, and returns the cursor of the next page, ""
// after the last.
func (s *Store) Triggers(ctx context.Context, f ledger.TriggerFilter) (triggers []jobs.Trigger, next string, err error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return nil, "", err
	}
	err = s.view(ctx, "triggers", func(t *tx) (err error) {
		triggers, err = t.triggerPage(f, limit+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(triggers) > limit {
		triggers = triggers[:limit]
		last := triggers[limit-1]
		next = triggerCursor(micros(last.At), last.Job, last.Seq)
	}
	return triggers, next, nil
}

func (t *tx) triggerPage(f ledger.TriggerFilter, n int) ([]jobs.Trigger, error) {
	w, err := triggerWhere(f)
	if err != nil {
		return nil, err
	}
	index, order := `{triggers}_at`, `at DESC, job DESC, seq DESC`
	switch {
	case f.Job != "" && f.Result != "":
		index, order = `{triggers}_result`, `at DESC, seq DESC`
	case f.Job != "":
		index, order = `PRIMARY`, `at DESC, seq DESC`
	case f.Outcome != "":
		index = `{triggers}_outcome`
	case f.Result != "":
		index = `{triggers}_ended`
	}
	return t.triggers(`SELECT `+triggerColumns+` FROM {triggers}{walk}`+index+`{walked}`+w.text()+` ORDER BY `+order+` LIMIT ?`, append(w.args, n))
}

func triggerCursor(at int64, job string, seq int) string {
	return cursor("trigger", strconv.FormatInt(at, 10), job, strconv.Itoa(seq))
}

func triggerWhere(f ledger.TriggerFilter) (*where, error) {
	w := &where{}
	if f.Job != "" {
		w.and(`job = ?`, f.Job)
	}
	if f.Outcome != "" {
		w.and(`outcome = ?`, string(f.Outcome))
	}
	if f.Result != "" {
		w.and(`result = ?`, string(f.Result))
	}
	if !f.Since.IsZero() {
		w.and(`at >= ?`, micros(f.Since))
	}
	after, err := readCursor(f.Cursor, "trigger", 3)
	if err != nil || after == nil {
		return w, err
	}
	at, err := strconv.ParseInt(after[0], 10, 64)
	seq, err2 := strconv.Atoi(after[2])
	if err != nil || err2 != nil {
		return nil, fmt.Errorf("cursor: %w: %.40q is not a cursor of this list", jobs.ErrInvalid, f.Cursor)
	}
	// Not (at, job, seq) < (?, ?, ?): MySQL finds no range in it.
	w.and(`at <= ? AND NOT (at = ? AND (job > ? OR (job = ? AND seq >= ?)))`, at, at, after[1], after[1], seq)
	return w, nil
}

func (t *tx) triggers(text string, args []any) ([]jobs.Trigger, error) {
	var all []jobs.Trigger
	err := t.Query(text, args, func(scan func(...any) error) error {
		trigger, err := scanTrigger(scan)
		all = append(all, trigger)
		return err
	})
	return all, err
}

// scanTrigger reads triggerColumns.
func scanTrigger(scan func(dest ...any) error) (jobs.Trigger, error) {
	var t jobs.Trigger
	var at, until, decided, started, finished int64
	var cause, outcome, result string
	err := scan(&t.Job, &at, &t.Seq, &until, &t.Count, &cause, &t.By, &outcome, &t.Reason, &t.ReasonCode, &result, &t.TaskID, &t.Replica, &decided, &started, &finished)
	t.At, t.Until, t.DecidedAt, t.StartedAt, t.FinishedAt = fromMicros(at), fromMicros(until), fromMicros(decided), fromMicros(started), fromMicros(finished)
	t.Cause, t.Outcome, t.Result = jobs.Cause(cause), jobs.Outcome(outcome), jobs.State(result)
	return t, err
}
