package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Finish writes the ends of attempts of the session's tasks, or of those of a session that a result names, each under its token, in one
// transaction; the answer has the order of results. It implements ledger.Tasks.
//
// A result for a row that is no longer owned is Fenced and changes nothing, but for the own result of a task
// that ended as lost: it replaces that once, as Late, and its job no longer waits for it. Writing the same result again is
// Recorded again, as one that was so Before: so a lost answer is settled by writing once more. Of several results for one task
// only the first counts.
//
// A task with a requested cancellation is not attempted again, whatever the verdict. The tasks in
// the answer have no payload. Texts are cut as ledger.Result says.
//
// Errors: jobs.ErrUnavailable. Any other error is the database's refusal: nothing was written.
func (s replica) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	if len(results) == 0 {
		return nil, nil
	}
	w := &finish{session: session, results: slices.Grow(s.batches.results.take(), len(results)), moves: s.batches.moves.take()}
	defer func() {
		s.batches.results.give(w.results)
		s.batches.moves.give(w.moves)
	}()
	for i, r := range results {
		w.results = append(w.results, r.Kept())
		w.results[i].KindLimited = r.KindLimited || r.Task != nil && r.Task.Kind != "" && s.kinds.have(r.Task.Pool, r.Task.Kind)
	}
	w.fingerprintAll()
	w.unread = w.known()
	if err := s.settle(ctx, "finish", w.write, nil); err != nil {
		return nil, err
	}
	return w.out, nil
}

// finish is one Finish call; each call of write starts it again.
type finish struct {
	session string
	results []ledger.Result
	unread  bool   // rows are taken to be as their owner knows them
	lock    string // waits for a COMMIT that is still in progress

	prints   []string // fingerprints of results that fail, if any does
	lateJobs []string // of late results, as the try before has met them

	now   time.Time
	pools watched
	jobs  counting
	moves []move
	late  []move
	out   []ledger.Finished
}

// fingerprintAll makes the fingerprints of what fails before the transaction begins: a thousand of long errors take so long that the server might
// end a transaction that is silent meanwhile.
func (w *finish) fingerprintAll() {
	for i, r := range w.results {
		if r.Verdict != ledger.Ended || r.State != jobs.StateFailed || r.Task == nil || r.Task.ID != r.TaskID {
			continue
		}
		if w.prints == nil {
			w.prints = make([]string, len(w.results))
		}
		w.prints[i] = fingerprint(r.Task, r.State, r.Code, r.ExitCode, r.Error)
	}
}

func (w *finish) write(t *tx) (err error) {
	w.moves, w.late = w.moves[:0], nil
	w.out = make([]ledger.Finished, len(w.results))
	if t.Again {
		w.lock = "{for_update}"
	}
	if w.pools, err = t.watch(w.results); err != nil {
		return err
	}
	first := append(jobsThatCount(w.results), w.lateJobs...)
	if w.jobs, err = t.countRuns(first); err != nil {
		return err
	}
	if w.unread && !t.Again {
		w.unread = false // for the next try, if a row was not as its owner knows it
		return w.writeUnread(t)
	}
	if w.now, err = t.Now(); err != nil {
		return err
	}
	foreign, err := w.own(t)
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		if err := w.ended(t, foreign); err != nil {
			return err
		}
	}
	if w.lockLater(first, t.Again) {
		return sqlkit.ErrMoved
	}
	if err := t.pauseOn(w.now, w.pools, w.results, w.moves); err != nil {
		return err
	}
	if err := t.suspendAfter(w.now, w.jobs, append(runEnds(w.moves), lateEnds(w.late)...)); err != nil {
		return err
	}
	if err := t.freeJobs(w.now, w.late); err != nil {
		return err
	}
	if err := t.move(w.now, isRunning, w.moves); err != nil {
		return err
	}
	return t.replaceLost(w.now, w.late)
}

// lockLater reports whether this try would lock rows of jobs after others of jobs, or after those of tasks: that a result is late is known when rows of tasks are read.
// The next try locks all jobs first, sorted.
func (w *finish) lockLater(first []string, tasks bool) bool {
	if len(first) == 0 && !tasks {
		return false
	}
	names := mapped(those(w.late, func(m move) bool { return m.Job != "" }), func(m move) string { return m.Job })
	if !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(first, name) }) {
		return false
	}
	w.lateJobs = append(w.lateJobs, names...)
	return true
}

// writeUnread writes ends as their owner knows them. What is read of their pools, if they have keys, comes with the time.
func (w *finish) writeUnread(t *tx) error {
	var pools []string
	for _, r := range w.results {
		if r.Task.Key != "" || r.Task.Kind != "" && r.Task.Job == "" && !r.AnyKind() {
			pools = append(pools, r.Task.Pool)
		}
	}
	var k keyed
	var err error
	if len(pools) > 0 {
		k, err = t.keyed(sqlkit.Distinct(pools))
	}
	if w.now = k.now; err == nil && w.now.IsZero() {
		w.now, err = t.Now()
	}
	if err != nil {
		return err
	}
	moves := w.end()
	if err := t.pauseOn(w.now, w.pools, w.results, moves); err != nil {
		return err
	}
	if err := t.suspendAfter(w.now, w.jobs, runEnds(moves)); err != nil {
		return err
	}
	places, err := t.wakeKnown(w.now, k, moves)
	if err != nil {
		return err
	}
	return t.moveAwake(w.now, asGiven(w.session), moves, places)
}

// own reads the rows and plans the moves of those that the session still owns. The other results are
// returned, by their index.
//
// Index: primary key.
func (w *finish) own(t *tx) (foreign []int, err error) {
	rows, err := t.openTasks(taskFacts, " WHERE {in name id} ORDER BY id"+w.lock,
		sqlkit.Rows(w.results, func(r ledger.Result) []any { return []any{r.TaskID} }))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, r := range w.results {
		w.out[i] = ledger.Finished{TaskID: r.TaskID, Finish: ledger.Fenced, Task: &jobs.Task{ID: r.TaskID}}
		k, open := slices.BinarySearchFunc(rows, r.TaskID, func(row openTask, id string) int { return strings.Compare(row.ID, id) })
		if open {
			w.is(i, rows[k].Task)
		}
		mine := open && rows[k].Token == r.Token
		switch {
		case seen[r.TaskID]:
		case mine && rows[k].row == rowRunning && rows[k].session == cmp.Or(r.Session, w.session):
			m := w.move(rows[k], i)
			w.moves = append(w.moves, m)
			w.out[i].Finish = ledger.Recorded
			w.is(i, m.task(w.now))
		case mine && rows[k].row != rowRunning && r.Verdict.Undone():
			w.out[i].Finish, w.out[i].Before = ledger.Recorded, !t.Again
		default:
			foreign = append(foreign, i)
		}
		seen[r.TaskID] = true
	}
	return foreign, nil
}

// known reports whether all results end their tasks whatever their rows say, if the session owns them, and all that is written is
// known: nearly all results are like that.
func (w *finish) known() bool {
	seen := map[string]bool{}
	for _, r := range w.results {
		if r.Verdict != ledger.Ended || r.Session != "" || r.Task == nil || r.Task.ID != r.TaskID || r.Task.Token != r.Token || seen[r.TaskID] {
			return false
		}
		seen[r.TaskID] = true
	}
	return true
}

// is notes what the row of a result is then.
func (w *finish) is(i int, task jobs.Task) { w.out[i].State, w.out[i].Task = task.State, &task }

// end plans the moves of results that are known, and the answer, which holds if the session owns all their rows.
func (w *finish) end() []move {
	w.moves = slices.Grow(w.moves[:0], len(w.results))
	for i, r := range w.results {
		row := openTask{Task: *r.Task, row: rowRunning, session: w.session}
		row.Payload, row.PayloadSize = nil, 0
		m := w.move(row, i)
		w.moves = append(w.moves, m)
		w.out[i] = ledger.Finished{TaskID: r.TaskID, Finish: ledger.Recorded, State: r.State, At: m.ended}
	}
	return w.moves
}

func (w *finish) move(row openTask, i int) move {
	r := w.results[i]
	ended := r.EndedAt(row.StartedAt, w.now)
	if r.Verdict == ledger.Died {
		m := died(row, r.Code, r.Reason)
		m.ended, m.failure, m.exit, m.output, m.spans, m.chunks, m.value, m.anyKind = ended, r.Error, r.ExitCode, r.Output, r.Spans, r.Chunked, r.Value, r.AnyKind()
		return m
	}
	m := move{
		openTask: row, to: toDone, end: r.State, ended: ended, reason: r.Reason, code: r.Code, failure: r.Error, exit: r.ExitCode,
		output: r.Output, spans: r.Spans, chunks: r.Chunked, value: r.Value, never: r.Verdict.Undone(), after: r.Due(w.now), anyKind: r.AnyKind(), tells: r.Tells,
	}
	switch {
	case r.Verdict == ledger.Ended:
		if w.prints != nil {
			m.print = w.prints[i]
		}
	case row.cancel != "":
		m.end, m.reason, m.code = jobs.StateCancelled, row.cancel, ledger.CancelCode(row.cancel)
	case r.Verdict == ledger.Again:
		m.to = toWait
	case r.Verdict == ledger.Snoozed:
		m.to, m.end = toWait, jobs.StatePending
	default:
		m.to, m.end = toReady, jobs.StatePending
	}
	return m
}

// ended sorts results for rows that the session does not own now: written before, late, or refused.
//
// Index: primary keys of done and attempts.
func (w *finish) ended(t *tx, foreign []int) error {
	wanted := sqlkit.Rows(foreign, func(i int) []any { return []any{w.results[i].TaskID} })
	done := map[string]openTask{}
	err := each(t.rows("SELECT "+doneFacts+", late, may_run_until FROM {done} WHERE {in name id} ORDER BY id"+w.lock, wanted), func(m *doneModel) {
		done[m.Task.ID] = openTask{Task: m.Task.task(), late: m.Late != 0, mayRunUntil: fromMicros(m.MayRunUntil)}
	})
	if err != nil {
		return err
	}
	type attempt struct {
		id    string
		token int64
		state jobs.State
	}
	earlier := map[attempt]bool{}
	err = each(t.rows("SELECT task_id, token, state FROM {attempts} WHERE {in name task_id}", wanted), func(m *attemptModel) {
		earlier[attempt{m.TaskID, m.Token, m.State}] = true
	})
	if err != nil {
		return err
	}
	for _, i := range foreign {
		r := w.results[i]
		row, is := done[r.TaskID]
		if is {
			w.is(i, row.Task)
		}
		end := r.State
		if r.Verdict == ledger.Died {
			end = jobs.StateLost
		}
		switch {
		case r.Verdict.Undone(): // also of a task that ended as cancelled by that: the session is no owner any more
		case is && row.Token == r.Token && (row.State == end || r.Verdict == ledger.Again && row.State == jobs.StateCancelled):
			w.out[i].Finish, w.out[i].Before = ledger.Recorded, !t.Again
			if row.late {
				w.out[i].Finish = ledger.Late
			}
		case is && row.Token == r.Token && row.State == jobs.StateLost && !row.late:
			m := move{openTask: row, to: toDone, end: end, ended: r.EndedAt(row.StartedAt, w.now), reason: "late", code: cmp.Or(r.Code, reason.Late), failure: r.Error, exit: r.ExitCode, output: r.Output, spans: r.Spans, value: r.Value, tells: r.Tells}
			if r.Reason != "" {
				m.reason += ": " + r.Reason
			}
			w.late = append(w.late, m)
			w.out[i].Finish = ledger.Late
			w.is(i, m.task(w.now))
		case earlier[attempt{r.TaskID, r.Token, end}]:
			w.out[i].Finish, w.out[i].Before = ledger.Recorded, !t.Again
		}
	}
	return nil
}

// replaceLost writes results of tasks that had ended as lost, once: column late is set.
//
// Index: primary keys of triggers and done.
func (t *tx) replaceLost(now time.Time, late []move) error {
	if len(late) == 0 {
		return nil
	}
	slices.SortFunc(late, func(a, b move) int { return lockOrder(a.openTask, b.openTask) })
	for part := range sqlkit.Portions(late, sqlkit.MaxRows, move.texts) {
		if err := t.replaceLostTriggers(now, part); err != nil {
			return err
		}
		if err := t.replaceLostTasks(now, part); err != nil {
			return err
		}
		if err := t.replaceOutputs(now, part); err != nil {
			return err
		}
		if err := t.keepResults(part); err != nil {
			return err
		}
	}
	return t.happened(now, ends(late))
}
