package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

const enqueueTx = "enqueue in a transaction"

var operations = []operation{
	{"claim", claimScene},
	{"finish", finishScene},
	{"decide", decideScene},
	{"enqueue", enqueueScene},
	{enqueueTx, enqueueTxScene},
	{"extend", extendScene},
	{"report progress", reportScene},
	{"write output", outputScene},
	{"reap", reapScene},
	{"cancel", cancelScene},
	{"update", updateScene},
	{"join", joinScene},
	{"beat", beatScene},
	{"drain", drainScene},
	{"expire", expireScene},
	{"notify", notifyScene},
}

// A replica that gets the answer of a claim has it. Without an answer, it may have it.
func claimScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(3)
	p.decide(p.plain, false)
	c := p.claiming(p.session)
	var claimed ledger.Claimed
	call := func(ctx context.Context) (err error) {
		claimed, err = p.wired.Sides().Replica.Claim(ctx, c)
		return err
	}
	return call, func(err error) {
		if err == nil && len(claimed.Tasks) != 4 {
			p.errorf("%d tasks are said to be claimed, of 4", len(claimed.Tasks))
		}
		if err != nil && len(claimed.Tasks) > 0 {
			p.errorf("%d tasks came with %v", len(claimed.Tasks), err)
		}
		p.start(tasksOf(claimed.Tasks)...)
	}
}

// A result is written once, and the answer to writing it again says so.
func finishScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(4)
	p.decide(p.plain, false)
	_, err := p.plain.Sides().Replica.Claim(p.t.Context(), p.claiming(p.session))
	p.check(err)
	p.handBack(p.t.Context())
	claimed, err := p.plain.Sides().Replica.Claim(p.t.Context(), p.claiming(p.session))
	p.check(err)
	verdicts := []ledger.Verdict{ledger.Ended, ledger.Again, ledger.HandBack, ledger.Died}
	var results []ledger.Result
	var job, handedBack string
	for _, task := range claimed.Tasks {
		r := ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateFailed, Output: []byte("out")}
		if task.Job == "" {
			r.Verdict, verdicts = verdicts[0], verdicts[1:]
			if r.Verdict == ledger.Ended {
				r.State = jobs.StateSucceeded
			}
		} else {
			job, p.ended[task.ID] = task.ID, jobs.StateFailed
		}
		if r.Verdict == ledger.HandBack {
			handedBack, r.Output = task.ID, nil // it was never started
		} else {
			p.start(*task.Task)
		}
		results = append(results, r)
	}
	// From before its retry, under another token.
	old := ledger.Result{TaskID: claimed.Tasks[0].ID, Token: claimed.Tasks[0].Token - 1, Verdict: ledger.Ended, State: jobs.StateFailed}
	write := func(ctx context.Context, s *store.Store) error {
		if refused, err := s.Sides().Replica.Finish(ctx, p.session, []ledger.Result{old}); err == nil && refused[0].Finish != ledger.Fenced {
			p.errorf("a result under an old token is %s", refused[0].Finish)
		}
		finished, err := s.Sides().Replica.Finish(ctx, p.session, results)
		p.recorded(finished)
		if err == nil && len(finished) != len(results) {
			p.errorf("%d of %d results are answered", len(finished), len(results))
		}
		return err
	}
	call := func(ctx context.Context) error { return write(ctx, p.wired) }
	return call, func(err error) {
		if err != nil {
			p.check(write(p.t.Context(), p.plain)) // as the replica does until it has an answer
		}
		clear(p.knows)
		p.count(1, "{tasks} WHERE id=? AND state=0 AND attempt=0", handedBack)
		p.count(2, "{tasks} WHERE attempt=1 AND state<2")
		p.count(1, "{events} WHERE task_id=? AND event='failed'", job)
		p.count(1, "{triggers} WHERE task_id=? AND outcome='ran' AND result='failed'", job)
		for _, r := range results {
			p.count(1-int64(strings.Count(handedBack, r.TaskID)), "{outputs} WHERE task_id=?", r.TaskID)
		}
	}
}

// Each due time is decided once, whatever the answers, and a job that another replica has locked is returned as busy.
func decideScene(p *play) (func(context.Context) error, func(error)) {
	p.due = p.due.Add(time.Hour)
	due := p.due
	busy, release := p.othersHave("k")
	var decided ledger.Decided
	call := func(ctx context.Context) (err error) {
		decided, err = p.deciding(ctx, p.wired, due, true)
		return err
	}
	return call, func(err error) {
		release()
		if err == nil && (len(decided.Started) != 1 || !slices.Equal(decided.Busy, busy)) {
			p.errorf("%d tasks are said to be started, and %q to be busy", len(decided.Started), decided.Busy)
		}
		p.start(tasksOf(decided.Started)...)
		again, err := p.deciding(p.t.Context(), p.plain, due, true)
		p.check(err)
		p.start(tasksOf(again.Started)...)
		p.count(1, "{triggers} WHERE job='j' AND at=? AND outcome=''", due.UnixMicro())
		p.count(1, "{triggers} WHERE job='j' AND at=? AND outcome='missed'", due.Add(time.Minute).UnixMicro())
		p.count(1, "{events} WHERE job='j' AND trigger_at=?", due.Add(time.Minute).UnixMicro())
		p.count(1, "{tasks} WHERE job='j'")
		p.tasks = append(p.tasks, p.db.Text(p.t, "SELECT id FROM {tasks} WHERE job='j'"))
	}
}

// deciding runs the due time and misses the one after it, if that was not decided before.
func (p *play) deciding(ctx context.Context, s *store.Store, due time.Time, claim bool) (ledger.Decided, error) {
	missed := due.Add(time.Minute)
	task := jobs.Task{ID: newID(), Pool: "p", OnLost: jobs.LostFails}
	return s.Sides().Replica.Decide(ctx, ledger.Decide{
		Admission: ledger.Admission{
			Session: p.session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "h", Room: 1000}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, claim },
		},
		Jobs:  []string{"j", "k"},
		Now:   asIs,
		Guard: true,
		Decide: func(now time.Time, states []ledger.JobState) (all []ledger.Decision) {
			for _, j := range states {
				if j.Name == "j" && j.Cursor.Before(due) {
					all = append(all, ledger.Decision{Job: "j", Cursor: missed, NextAt: missed.Add(time.Hour), Triggers: []ledger.Opening{
						{Trigger: jobs.Trigger{Job: "j", At: due, Cause: jobs.CauseSchedule}, Task: &task},
						{Trigger: jobs.Trigger{Job: "j", At: missed, Cause: jobs.CauseSchedule, Outcome: jobs.Missed, Reason: "late"}},
					}})
				}
			}
			return all
		},
	})
}

// othersHave locks a job from another connection until release, where rows are locked.
func (p *play) othersHave(name string) (busy []string, release func()) {
	p.t.Helper()
	if p.dialect != store.MySQL {
		return nil, func() {}
	}
	tx, err := p.db.db.BeginTx(p.t.Context(), nil)
	p.check(err)
	var there string
	p.check(tx.QueryRowContext(p.t.Context(), "SELECT name FROM lockstep_jobs WHERE name=? FOR UPDATE", name).Scan(&there))
	return []string{name}, func() { p.check(tx.Rollback()) }
}

// decide opens a task of the job.
func (p *play) decide(s *store.Store, claim bool) {
	p.t.Helper()
	p.due = p.due.Add(time.Hour)
	decided, err := p.deciding(p.t.Context(), s, p.due, claim)
	p.check(err)
	p.start(tasksOf(decided.Started)...)
	p.tasks = append(p.tasks, p.db.Text(p.t, "SELECT id FROM {tasks} WHERE job='j'"))
}

func (p *play) enqueue(n int) {
	p.t.Helper()
	all, err := p.plain.Enqueue(p.t.Context(), slices.Repeat([]jobs.NewTask{{Pool: "p"}}, n)...)
	p.check(err)
	for _, e := range all {
		p.tasks = append(p.tasks, e.Task.ID)
	}
}

// A batch exists as a whole or not at all; without an answer, the same keys are enqueued again.
func enqueueScene(p *play) (func(context.Context) error, func(error)) {
	keyed := jobs.NewTask{Pool: "p", IdempotencyKey: newID()}
	var all []jobs.Enqueued
	call := func(ctx context.Context) (err error) {
		all, err = p.wired.Enqueue(ctx, keyed, jobs.NewTask{Pool: "p"})
		return err
	}
	return call, func(err error) {
		if err == nil && (all[0].Existed || all[1].Existed) {
			p.errorf("a new task is said to have existed")
		}
		again, repeated := p.plain.Enqueue(p.t.Context(), keyed)
		p.check(repeated)
		if err == nil && (!again[0].Existed || again[0].Task.ID != all[0].Task.ID) {
			p.errorf("an acknowledged task is not the one that is there")
		}
		want := int64(1)
		if again[0].Existed {
			want = 2
		}
		p.count(want, "{tasks}")
		p.count(want-1, "{tasks} WHERE idem_key=''")
		p.mine()
	}
}

// mine takes note of all tasks that are there.
func (p *play) mine() {
	for n := range p.db.Int(p.t, "SELECT COUNT(*) FROM {tasks}") {
		p.tasks = append(p.tasks, p.db.Text(p.t, "SELECT id FROM {tasks} ORDER BY id LIMIT 1 OFFSET ?", n))
	}
}

var begins = map[store.Dialect]string{store.SQLite: "BEGIN IMMEDIATE", store.MySQL: "BEGIN"}

// A task in a caller's transaction is there if, and only if, what else the caller wrote is.
func enqueueTxScene(p *play) (func(context.Context) error, func(error)) {
	order := newID()
	p.db.Exec(p.t, "CREATE TABLE IF NOT EXISTS orders (id VARCHAR(40) PRIMARY KEY)")
	write := func(ctx context.Context, db *sql.DB) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return errors.Join(jobs.ErrUnavailable, err)
		}
		defer conn.Close()
		for _, do := range []func() error{
			func() error { return query(ctx, conn, begins[p.dialect]) },
			func() error { return query(ctx, conn, "INSERT INTO orders VALUES ('"+order+"')") },
			func() error {
				added, err := p.wired.EnqueueTx(ctx, conn, jobs.NewTask{Pool: "p", IdempotencyKey: order})
				if err != nil && (added != nil || !errors.Is(err, jobs.ErrUnavailable)) {
					p.errorf("%v, %v", added, err)
				}
				return err
			},
			func() error { return query(ctx, conn, "COMMIT") },
		} {
			if err := do(); err != nil {
				_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closed, which rolls back
				return errors.Join(jobs.ErrUnavailable, err)
			}
		}
		return nil
	}
	locked := map[store.Dialect]string{store.MySQL: " FOR UPDATE"}[p.dialect] // as decision 46 has it
	return func(ctx context.Context) error { return write(ctx, p.handle) }, func(err error) {
		if err != nil {
			repeated := write(p.t.Context(), p.db.db)
			if there := p.db.Int(p.t, "SELECT COUNT(*) FROM orders WHERE id=?"+locked, order); there != 1 {
				p.errorf("repeated: %v, and there are %d orders", repeated, there)
			}
		}
		p.count(1, "orders WHERE id=?"+locked, order)
		p.count(1, "{tasks} WHERE idem_key=?"+locked, order)
		p.count(1, "{tasks}"+locked)
		p.mine()
	}
}

// The answer says whose the rows are, and an answer of true has written them.
func reportScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(2)
	p.claim(p.t.Context())
	var reports []ledger.Progress
	for _, task := range p.knows {
		reports = append(reports, ledger.Progress{TaskID: task.ID, Token: task.Token, Done: 0.5})
	}
	reports = append(reports, ledger.Progress{TaskID: reports[0].TaskID, Token: reports[0].Token + 1, Done: 0.9}) // whose the others are is asked, too
	var ours []bool
	call := func(ctx context.Context) (err error) {
		ours, err = p.wired.Sides().Replica.Report(ctx, p.session, reports)
		return err
	}
	return call, func(err error) {
		if err != nil {
			ours, err = p.plain.Sides().Replica.Report(p.t.Context(), p.session, reports)
			p.check(err)
		}
		if !slices.Equal(ours, []bool{true, true, false}) {
			p.errorf("the answer is %v", ours)
		}
		p.count(2, "{tasks} WHERE progress='500000 '")
	}
}

// The answer says whose the rows are, and an answer of true has written the chunks.
func outputScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(2)
	p.claim(p.t.Context())
	var chunks []ledger.Chunk
	for _, task := range p.knows {
		chunks = append(chunks, ledger.Chunk{TaskID: task.ID, Token: task.Token, First: 7, Data: []byte("text"), Forget: ledger.HeadKept + 1})
	}
	chunks = append(chunks, ledger.Chunk{TaskID: chunks[0].TaskID, Token: chunks[0].Token + 1, Data: []byte("stale")})
	var ours []bool
	call := func(ctx context.Context) (err error) {
		ours, err = p.wired.Sides().Replica.WriteOutput(ctx, p.session, chunks)
		return err
	}
	return call, func(err error) {
		if err != nil {
			ours, err = p.plain.Sides().Replica.WriteOutput(p.t.Context(), p.session, chunks)
			p.check(err)
		}
		if !slices.Equal(ours, []bool{true, true, false}) {
			p.errorf("the answer is %v", ours)
		}
		for _, c := range chunks[:2] {
			p.count(1, "{chunks} WHERE task_id=?", c.TaskID)
			p.count(1, "{chunks} WHERE task_id=? AND token=? AND first_byte=7", c.TaskID, c.Token)
		}
	}
}

// The answer says whose the rows are, and an answer of true moved them.
func extendScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(2)
	p.claim(p.t.Context())
	p.due = p.due.Add(time.Hour)
	var moves []ledger.Extension
	for _, task := range p.knows {
		moves = append(moves, ledger.Extension{TaskID: task.ID, Token: task.Token, Until: p.due})
	}
	var ours []bool
	call := func(ctx context.Context) (err error) {
		ours, err = p.wired.Sides().Replica.Extend(ctx, p.session, moves)
		return err
	}
	return call, func(err error) {
		if err != nil {
			ours, err = p.plain.Sides().Replica.Extend(p.t.Context(), p.session, moves)
			p.check(err)
		}
		if !slices.Equal(ours, []bool{true, true}) {
			p.errorf("ours: %v", ours)
		}
		p.count(2, "{tasks} WHERE state=2 AND may_run_until=?", p.due.UnixMicro())
	}
}

// The task of a dead session is lost once.
func reapScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(2)
	p.decide(p.plain, false)
	dead, err := p.plain.Sides().Replica.Join(p.t.Context(), ledger.Member{Replica: "dead", LockService: "x"})
	p.check(err)
	claimed, err := p.plain.Sides().Replica.Claim(p.t.Context(), p.claiming(dead))
	p.check(err)
	for _, task := range claimed.Tasks {
		p.starts[task.ID]++
		if task.Job != "" {
			p.ended[task.ID] = jobs.StateLost
		}
	}
	p.check(p.plain.Sides().Replica.Leave(p.t.Context(), dead))
	var reaped []ledger.Reaped
	call := func(ctx context.Context) (err error) {
		reaped, err = p.wired.Sides().Replica.Reap(ctx, 9)
		return err
	}
	return call, func(err error) {
		if err == nil && len(reaped) != 3 {
			p.errorf("%d tasks are said to be reaped, of 3", len(reaped))
		}
		_, err = p.plain.Sides().Replica.Reap(p.t.Context(), 9)
		p.check(err)
		p.count(2, "{attempts} a WHERE state='lost' AND EXISTS (SELECT 1 FROM {tasks} t WHERE t.id=a.task_id AND losses=1)")
		p.count(1, "{triggers} WHERE job='j' AND at=? AND outcome='lost'", p.due.UnixMicro())
		p.count(1, "{events} WHERE trigger_at=? AND event='lost'", p.due.UnixMicro())
	}
}

func cancelScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(1)
	id := p.tasks[0]
	p.ended[id] = jobs.StateCancelled
	cancel := func(ctx context.Context, s *store.Store) error {
		task, err := s.Cancel(ctx, id, "me")
		if err == nil && task.State != jobs.StateCancelled {
			p.errorf("%s", task.State)
		}
		return err
	}
	call := func(ctx context.Context) error { return cancel(ctx, p.wired) }
	return call, func(err error) {
		if err != nil {
			if err := cancel(p.t.Context(), p.plain); !errors.Is(err, jobs.ErrConflict) { // it has ended
				p.check(err)
			}
		}
	}
}

// A change is there as a whole, or not at all, and is there if the answer says so.
func updateScene(p *play) (func(context.Context) error, func(error)) {
	p.enqueue(1)
	change := wire.TaskChange{Priority: new(7), Tags: &[]string{"x"}}
	call := func(ctx context.Context) error {
		task, err := p.wired.UpdateTask(ctx, p.tasks[0], change)
		if err == nil && task.Priority != 7 {
			p.errorf("%+v", task)
		}
		return err
	}
	return call, func(err error) {
		if err != nil {
			_, err := p.plain.UpdateTask(p.t.Context(), p.tasks[0], change)
			p.check(err)
		}
		p.count(1, "{tasks} WHERE rank_order=-7 AND tags<>'' AND state=0")
	}
}

func query(ctx context.Context, conn *sql.Conn, text string) error {
	_, err := conn.ExecContext(ctx, text)
	return err
}
