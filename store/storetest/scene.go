package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// scene is a database with jobs and pools, and one replica.
type scene struct {
	*Bench
	t       *testing.T
	replica string
	session string
}

const (
	hash   = "hash"
	noon   = int64(1_800_000_000_000_000) // a due time, in µs
	minute = 60_000_000
)

func due(n int) time.Time { return time.UnixMicro(noon + int64(n)*minute).UTC() }

// definitions has the jobs a, b and c, the pools default and work, whose tasks fail when lost, and
// the pool again, whose tasks are retried then.
func definitions() ledger.Definitions {
	var d ledger.Definitions
	for i, name := range []string{"a", "b", "c"} {
		d.Jobs = append(d.Jobs, ledger.JobDef{
			Name: name, Stripe: i, Hash: hash, Schedule: "every minute",
			Next: func(t time.Time) time.Time { return t.Add(time.Minute) },
		})
	}
	d.Pools = []ledger.PoolDef{
		{Name: "again", Hash: hash, MaxAttempts: 11, Retry: true},
		{Name: "default", Hash: hash, MaxAttempts: 11},
		{Name: "work", Hash: hash, MaxAttempts: 3},
	}
	return d
}

// newScene has one replica, called one. Every job's cursor is at due(0).
func newScene(t *testing.T, b *Bench) *scene {
	t.Helper()
	s := &scene{Bench: b, t: t, replica: "one"}
	s.session = s.join("one")
	_, err := b.Store.Load(s.ctx(), s.session, definitions())
	must(t, err)
	b.DB.Exec(t, "UPDATE {jobs} SET cursor_at=?, next_at=?", noon, noon+minute)
	return s
}

// ctx gives a call a minute: machines that test are busy ones.
func (s *scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *scene) join(replica string) string {
	s.t.Helper()
	session, err := s.Store.Join(s.ctx(), ledger.Member{Replica: replica, LockService: "test", Workers: 10})
	must(s.t, err)
	return session
}

// second is another replica on the same database, with connections of its own.
func (s *scene) second(replica string) *scene {
	s.t.Helper()
	b := *s.Bench
	b.Store = s.Open(s.t)
	other := &scene{Bench: &b, t: s.t, replica: replica}
	other.session = other.join(replica)
	return other
}

// die declares the replica dead, as a peer does.
func (s *scene) die() {
	s.t.Helper()
	must(s.t, s.Store.Leave(s.ctx(), s.session))
}

func asIs(database time.Time) (time.Time, error) { return database, nil }

// decide is a Decide call of this replica with decisions that ignore the rows.
func (s *scene) decide(decisions ...ledger.Decision) (decided, error) {
	return decidedOf(s.Store.Decide(s.ctx(), s.deciding(func([]ledger.JobState) []ledger.Decision { return decisions })))
}

func (s *scene) deciding(decide func([]ledger.JobState) []ledger.Decision) ledger.Decide {
	return ledger.Decide{
		Admission: ledger.Admission{
			Session: s.session, Replica: s.replica, Pools: map[string]ledger.Share{"default": {Hash: hash, Room: 1000}}, Admit: admits,
		},
		Jobs: []string{"c", "a", "b"}, Now: asIs,
		Decide: func(_ time.Time, states []ledger.JobState) []ledger.Decision { return decide(states) },
	}
}

// run opens a task for job's due time and moves the cursor there. claim: it begins as running.
func run(job string, at time.Time, claim bool) ledger.Decision {
	id := newID()
	if claim {
		admit(id, at.Add(time.Hour))
	}
	return ledger.Decision{
		Job: job, Cursor: at, NextAt: at.Add(time.Minute),
		Triggers: []ledger.Opening{{
			Trigger: jobs.Trigger{Job: job, At: at, Count: 1, Cause: jobs.CauseSchedule},
			Task:    &jobs.Task{ID: id, Pool: "default", MaxAttempts: 3, OnLost: jobs.LostFails},
		}},
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// claiming takes up to limit tasks of pool.
func (s *scene) claiming(pool string, limit int) ledger.Claim {
	return ledger.Claim{
		Admission: ledger.Admission{
			Session: s.session, Replica: s.replica, Pools: map[string]ledger.Share{pool: {Hash: hash, Room: limit}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
		},
		Pool: pool, ID: newID(), Now: asIs,
	}
}

func (s *scene) claim(pool string, limit int) []jobs.Task {
	s.t.Helper()
	got, err := tasksOf(s.Store.Claim(s.ctx(), s.claiming(pool, limit)))
	must(s.t, err)
	return got.Tasks
}

// limit gives a pool a max_running; 0 is none.
func (s *scene) limit(pool string, n int) {
	s.t.Helper()
	s.DB.Exec(s.t, "UPDATE {pools} SET max_running=? WHERE name=?", n, pool)
}

// enqueue adds n tasks, written behind the store's back, and returns their ids in order.
func (s *scene) enqueue(pool string, n int) []string {
	s.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = newID()
	}
	for part := range slices.Chunk(ids, 100) {
		text := "INSERT INTO {tasks} (id, pool, state, run_at, payload, tags, error, created_at) VALUES (?, ?, 0, 1, ?, '', '', 1)" +
			strings.Repeat(", (?, ?, 0, 1, ?, '', '', 1)", len(part)-1)
		var args []any
		for _, id := range part {
			args = append(args, id, pool, []byte(`"`+id+`"`))
		}
		s.DB.Exec(s.t, text, args...)
	}
	return ids
}

// finish fills in the rows that the answer leaves out.
func (s *scene) finish(results ...ledger.Result) []ledger.Finished {
	s.t.Helper()
	done, err := s.Store.Finish(s.ctx(), s.session, results)
	must(s.t, err)
	for i, f := range done {
		row := f.Row(results[i])
		done[i].Task, done[i].At = &row, time.Time{}
	}
	return done
}

func (s *scene) reap() []ledger.Reaped {
	s.t.Helper()
	is, err := s.Store.Running(s.ctx(), "") // this session may be a dead one
	must(s.t, err)
	reaped, err := s.Store.Reap(s.ctx(), 100)
	must(s.t, err)
	if is.Orphaned != (len(reaped) > 0) {
		s.t.Errorf("%d tasks are reaped, and before that there were some: %t", len(reaped), is.Orphaned)
	}
	return reaped
}

// result has the task with it, as those of owners do.
func result(task jobs.Task, v ledger.Verdict, state jobs.State) ledger.Result {
	return ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: v, State: state, Task: &task, KindLimited: task.Kind != ""}
}

// task is a task's row as one line: "running 2/3 token 5 replica one: reason".
func (s *scene) task(id string) string {
	s.t.Helper()
	for _, from := range []string{"{tasks}", "{done}"} {
		state := s.DB.Text(s.t, "SELECT state FROM "+from+" WHERE id=?", id)
		if state == "" {
			continue
		}
		return fmt.Sprintf("%s attempt %d token %d replica %s: %s",
			cmp.Or(map[string]string{"0": "ready", "1": "waits", "2": "running", "5": "queued"}[state], state),
			s.DB.Int(s.t, "SELECT attempt FROM "+from+" WHERE id=?", id),
			s.DB.Int(s.t, "SELECT token FROM "+from+" WHERE id=?", id),
			cmp.Or(s.DB.Text(s.t, "SELECT RTRIM(replica) FROM "+from+" WHERE id=?", id), "-"),
			cmp.Or(s.DB.Text(s.t, "SELECT reason FROM "+from+" WHERE id=?", id), "-"))
	}
	return "none"
}

// trigger is the ledger row of a due time as one line: "ran succeeded: reason", "open: -".
func (s *scene) trigger(job string, at time.Time, seq int) string {
	s.t.Helper()
	key := []any{job, at.UnixMicro(), seq}
	const row = " FROM {triggers} WHERE job=? AND at=? AND seq=?"
	if s.DB.Int(s.t, "SELECT COUNT(*)"+row, key...) == 0 {
		return "none"
	}
	text := cmp.Or(s.DB.Text(s.t, "SELECT outcome"+row, key...), "open")
	if result := s.DB.Text(s.t, "SELECT result"+row, key...); result != "" {
		text += " " + result
	}
	return text + ": " + cmp.Or(s.DB.Text(s.t, "SELECT reason"+row, key...), "-")
}

func (s *scene) want(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s is %q, want %q", what, got, want)
	}
}

func (s *scene) wantInt(want int64, text string, args ...any) {
	s.t.Helper()
	if got := s.DB.Int(s.t, text, args...); got != want {
		s.t.Errorf("%s is %d, want %d", text, got, want)
	}
}
