package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// move is a change of a row of {tasks}: the task ends, or it is pending again.
//
//	running ──▶ {done}   it has succeeded, has failed for good, is cancelled, or is lost and not retried
//	        ──▶ waiting  failed, and retried; snoozed; lost, and retried when its attempt can no longer run
//	        ──▶ ready    handed back; lost, and retried
//	pending ──▶ {done}   cancelled, or its job was removed
//	lost    ──▶ {done}   its own result came late, and is the result now
type move struct {
	openTask // as it was read
	to       place
	never    bool       // the attempt does not count: it was not started, or was snoozed
	end      jobs.State // of the attempt, and of the task if it ends
	reason   string
	code     reason.Code
	failure  string
	exit     *int
	ended    time.Time // the attempt; zero: now
	after    time.Time // when a task that waits is due
	until    time.Time // a lost attempt may be running until then
	output   []byte
	spans    clip.Spans // which bytes of what the attempt wrote the output has
	chunks   bool       // there may be chunks of its output
	orphaned bool       // nobody can say what it wrote besides
	anyKind  bool       // its pool has no limits by kind, as its owner knows
	tells    bool       // if it ends as succeeded, there is an event
	value    []byte     // of the attempt: the task's result, if it ends
	print    string     // its fingerprint; "": it was not made yet
}

type place int

const (
	toDone  place = iota // {done}
	toWait               // pending, due at move.after
	toReady              // pending and due
)

// died is the move that a task's policy demands when its owner is lost: the task runs again until its limit of attempts
// were lost, unless its cancellation was requested.
func died(r openTask, code reason.Code, why string) move {
	m := move{openTask: r, to: toDone, end: jobs.StateLost, code: code, reason: why}
	switch {
	case r.OnLost != jobs.LostRetries:
	case r.cancel != "":
		m.reason += "; " + r.cancel
	case r.Lost+1 >= r.LostLimit:
		m.code = reason.LostLimit
		m.reason += fmt.Sprintf("; %d attempts were lost", r.Lost+1)
	default:
		m.to = toReady
	}
	return m
}

// outcome is the outcome of the trigger whose task ended like this.
func (m move) outcome() (jobs.Outcome, string) {
	switch {
	case m.end == jobs.StateLost:
		return jobs.Lost, m.reason
	case m.end == jobs.StateCancelled && (m.Attempt == 0 || m.never && m.Attempt == 1):
		switch m.code {
		case reason.LockWait, reason.Replaced, reason.Suspended:
			return jobs.Skipped, m.reason
		}
		return jobs.Skipped, "cancelled"
	}
	return jobs.Ran, cmp.Or(m.reason, firstLine(m.failure))
}

// firstLine of an error is the reason where there is no better one.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// task is the row afterwards, without its payload.
func (m move) task(now time.Time) jobs.Task {
	t := m.Task
	t.Reason, t.ReasonCode, t.Error, t.ExitCode = clip.Text(m.reason, 512), m.code, m.failure, m.exit
	t.Lost += int(m.losses())
	if m.to == toDone {
		t.State, t.FinishedAt = m.end, m.finished(now)
		if t.Fingerprint = ""; t.RetriedAs == "" {
			t.Fingerprint = m.fingerprint()
		}
		return t
	}
	t.State, t.Replica, t.StartedAt = jobs.StatePending, "", time.Time{}
	t.Attempt -= int(m.undone())
	t.RunAt = m.due()
	return t
}

// finished is when the attempt ended, or its task without one.
func (m move) finished(now time.Time) time.Time {
	if m.ended.IsZero() {
		return now
	}
	return m.ended
}

// fingerprint is that of the task if it ends; see jobs.Fingerprint.
func (m move) fingerprint() string {
	if m.print != "" {
		return m.print
	}
	return fingerprint(&m.Task, m.end, m.code, m.exit, m.failure)
}

// fingerprint is that of a task that ends so.
func fingerprint(t *jobs.Task, end jobs.State, code reason.Code, exit *int, failure string) string {
	return jobs.Fingerprint(jobs.Task{Job: t.Job, Kind: t.Kind, State: end, ReasonCode: code, ExitCode: exit, Error: failure})
}

func (m move) due() time.Time {
	if m.to == toWait {
		return m.after
	}
	return m.RunAt
}

// What the move adds to the row's counts; an attempt is undone in rows that are pending again.
func (m move) losses() int64   { return bit(m.end == jobs.StateLost) }
func (m move) failures() int64 { return bit(m.end == jobs.StateFailed) }
func (m move) undone() int64   { return bit(m.never) }

// texts is how many bytes of text a statement has for the move, but for its output.
func (m move) texts() int { return len(m.reason) + len(m.failure) }

func bit(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// move writes all moves, each portion with at most ten statements, and what follows for standings
// and events. If a row does not meet the guard, the answer is sqlkit.ErrMoved and nothing may be committed.
func (t *tx) move(now time.Time, g guard, moves []move) error {
	places, err := t.wakeKeys(now, moves)
	if err != nil {
		return err
	}
	return t.moveAwake(now, g, moves, places)
}

// moveAwake is move after wakeKeys, which locks rows that come before those of tasks.
func (t *tx) moveAwake(now time.Time, g guard, moves []move, places bool) error {
	if err := t.moveRows(now, g, moves, places); err != nil {
		return err
	}
	// Whatever follows from the end of a task, such as that of a group it is in, belongs here: in the transaction that ends it.
	return t.happened(now, ends(moves))
}

// moveRows is moveAwake without what follows, whose rows come after those of tasks.
func (t *tx) moveRows(now time.Time, g guard, moves []move, places bool) error {
	slices.SortFunc(moves, func(a, b move) int { return lockOrder(a.openTask, b.openTask) })
	for part := range sqlkit.Portions(moves, sqlkit.MaxRows, move.texts) {
		if err := t.movePart(now, g, part, places); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) movePart(now time.Time, g guard, moves []move, places bool) error {
	ended, pending := moves, those(moves, func(m move) bool { return m.to != toDone })
	if len(pending) > 0 { // nearly always all end, and none is copied
		ended = those(moves, func(m move) bool { return m.to == toDone })
	}
	if err := t.endTriggers(now, ended); err != nil {
		return err
	}
	if err := t.unstartTriggers(pending); err != nil {
		return err
	}
	if err := t.endTasks(now, g, ended); err != nil {
		return err
	}
	if keyed := those(ended, func(m move) bool { return m.Key != "" || m.row == rowKeyed }); places && len(keyed) > 0 {
		if err := t.forgetKeys(mapped(keyed, move.id)); err != nil {
			return err
		}
	}
	if err := t.requeue(g, pending); err != nil {
		return err
	}
	if err := t.keepAttempts(now, pending); err != nil {
		return err
	}
	if err := t.endChunks(moves); err != nil {
		return err
	}
	if err := t.keepOutputs(now, moves); err != nil {
		return err
	}
	return t.keepResults(ended)
}

// endTriggers writes the ends of tasks into their open ledger rows. The reason of a run that was forced begins with that, and if the
// run succeeded, its code remains. MySQL assigns in the order of the text: reason is set while its row has the old code.
//
// Index: primary key of triggers.
func (t *tx) endTriggers(now time.Time, ended []move) error {
	_, err := t.Exec(`UPDATE {each}{triggers}{by_key}
		SET outcome={name outcome}, result={name end},
			reason=CASE WHEN reason_code='`+string(reason.Forced)+`' THEN CONCAT(reason, {text appended}) ELSE {text reason} END,
			reason_code=CASE WHEN reason_code='`+string(reason.Forced)+`' AND {name code}='' THEN reason_code ELSE {name code} END, finished_at={int finished}
		WHERE COALESCE(outcome, '')='' AND `+ofTrigger,
		sqlkit.Rows(bornOfTriggers(ended), func(m move) []any {
			outcome, why := m.outcome()
			room := endedBytes
			if m.end == jobs.StateLost {
				room = lostBytes
			}
			return append([]any{string(outcome), string(m.end), appended(why, room), clip.Text(why, 512), string(m.code), micros(m.finished(now))}, triggerKey(m)...)
		}))
	return err
}

// replaceLostTriggers writes the late ends of runs that had ended as lost. Their code is that of the loss; the reason of one that was
// forced has more than the task's.
//
// Index: primary key of triggers.
func (t *tx) replaceLostTriggers(now time.Time, late []move) error {
	_, err := t.Exec(`UPDATE {each}{triggers}{by_key}
		SET outcome={name outcome}, result={name end},
			reason=CASE WHEN reason={text lost} THEN {text reason} ELSE CONCAT(reason, {text appended}) END,
			reason_code={name code}, finished_at={int finished}
		WHERE COALESCE(outcome, '')='lost' AND `+ofTrigger,
		sqlkit.Rows(bornOfTriggers(late), func(m move) []any {
			outcome, why := m.outcome()
			return append([]any{string(outcome), string(m.end), m.Reason, clip.Text(why, 512), appended(why, lateBytes), string(m.code), micros(m.finished(now))}, triggerKey(m)...)
		}))
	return err
}

// appended is what the reason of a forced run gets when it ends, with at most that many bytes of the end's own reason.
func appended(why string, room int) string {
	if why == "" {
		return ""
	}
	return "; " + clip.Text(why, room)
}

// The sizes of the parts of a forced run's reason: that it was forced, how it ended and, if it was lost, that and
// the late result. With the separators they fill the column, so that nothing is cut within a letter or left out.
const (
	forcedBytes = 352
	endedBytes  = 158
	lostBytes   = 98
	lateBytes   = 58
)

// unstartTriggers undoes the start of first attempts that were handed back.
//
// Index: primary key of triggers.
func (t *tx) unstartTriggers(pending []move) error {
	undone := slices.DeleteFunc(bornOfTriggers(pending), func(m move) bool { return !m.never || m.Attempt != 1 })
	_, err := t.Exec("UPDATE {triggers}{by_key} SET started_at=0 WHERE COALESCE(outcome, '')='' AND "+ofTrigger, sqlkit.Rows(undone, triggerKey))
	return err
}

// keepAttempts writes the attempts that another one follows.
func (t *tx) keepAttempts(now time.Time, pending []move) error {
	var rows [][]any
	for _, m := range pending {
		if !m.never {
			rows = append(rows, []any{
				m.ID, m.Attempt, string(m.end), clip.Text(m.reason, 512), string(m.code), m.Token, m.Replica,
				micros(m.StartedAt), micros(m.finished(now)), m.exitCode(), m.failure,
			})
		}
	}
	_, err := t.Insert(`{attempts} (task_id, attempt, state, reason, reason_code, token, replica, started_at, finished_at, exit_code, error)`, rows)
	return err
}

// keepOutputs writes outputs; the first one of an attempt stays.
func (t *tx) keepOutputs(now time.Time, moves []move) error {
	var rows [][]any
	for _, m := range moves {
		if len(m.output) > 0 {
			rows = append(rows, []any{m.ID, m.Attempt, m.output, micros(now), string(m.spans)})
		}
	}
	_, err := t.InsertNew("{outputs} (task_id, attempt, output, created_at, spans)", rows)
	return err
}

// keepResults writes the results of tasks that end; the first one of a task stays.
func (t *tx) keepResults(ended []move) error {
	var rows [][]any
	for _, m := range ended {
		if len(m.value) > 0 {
			rows = append(rows, []any{m.ID, m.value})
		}
	}
	_, err := t.InsertNew("{results} (task_id, result)", rows)
	return err
}

func (m move) exitCode() any {
	if m.exit == nil {
		return nil
	}
	return int64(*m.exit)
}

// all turns rows affected into sqlkit.ErrMoved, if they are not as many as the rows that were to be written.
func all(n int64, err error, meant []move) error {
	if err == nil && n != int64(len(meant)) {
		return sqlkit.ErrMoved
	}
	return err
}
