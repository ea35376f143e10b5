package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

var bulkCases = []Case{
	{"Bulk/Retry", bulkRetry},
	{"Bulk/RetryOrdered", bulkRetryOrdered},
	{"Bulk/RetryTogether", bulkRetryTogether},
	{"Bulk/Cancel", bulkCancel},
	{"Bulk/CancelEnded", bulkCancelEnded},
	{"Bulk/CancelBesideClaims", bulkCancelBesideClaims},
	{"Bulk/Purge", bulkPurge},
	{"Bulk/PurgeGone", bulkPurgeGone},
	{"Bulk/RetryGone", retryGone},
	{"Bulk/Filters", bulkFilters},
	{"Bulk/Refused", bulkRefused},
}

// change is one batch.
func (s *scene) change(action wire.BulkAction, b wire.Bulk) wire.BulkResult {
	s.t.Helper()
	got, err := s.Store.ChangeTasks(s.ctx(), action, b)
	must(s.t, err)
	skipped := 0
	for _, k := range got.Skipped {
		skipped += k.Count
	}
	if got.Matched != got.Done+skipped || !b.DryRun && len(got.Tasks) != got.Done {
		s.t.Errorf("%s does not add up: %+v", action, got)
	}
	return got
}

// changeAll is all batches together.
func (s *scene) changeAll(action wire.BulkAction, b wire.Bulk) (all wire.BulkResult) {
	s.t.Helper()
	for range 1000 {
		got := s.change(action, b)
		all.Matched, all.Done, all.Tasks = all.Matched+got.Matched, all.Done+got.Done, append(all.Tasks, got.Tasks...)
		all.Skipped = append(all.Skipped, got.Skipped...)
		if b.Cursor = got.Next; b.Cursor == "" {
			return all
		}
	}
	s.t.Fatal("the batches do not end")
	return all
}

func idsOf(tasks []wire.BulkTask) []string {
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = task.ID
	}
	return ids
}

// A retry makes one new task of each that matches, in batches, and none when it is asked again.
func bulkRetry(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ids := s.fails("work", "user 1 not found", "user 2 not found", "user 3 not found", "user 4 not found", "user 5 not found")
	other := s.fails("work", "disk full")
	s.endAs("work", jobs.StateSucceeded, "")
	group := fingerprint(jobs.Task{State: jobs.StateFailed, ReasonCode: reason.Error, Error: "user 1 not found"})
	latest := slices.Clone(ids)
	slices.Reverse(latest)
	filter := wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work", Fingerprint: group}, Limit: 2, By: "carol", DryRun: true}

	if dry := s.changeAll(wire.BulkRetry, filter); dry.Done != 5 || !slices.Equal(idsOf(dry.Tasks), latest) || dry.Tasks[0].As != "" || dry.Tasks[0].Error != "user 5 not found" || dry.Tasks[0].State != jobs.StateFailed {
		t.Errorf("a dry run: %+v", dry)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
	filter.DryRun = false
	first := s.change(wire.BulkRetry, filter)
	if !slices.Equal(idsOf(first.Tasks), latest[:2]) || first.Next == "" {
		t.Fatalf("the first batch: %+v", first)
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {tasks}")
	if again := s.change(wire.BulkRetry, filter); !slices.Equal(idsOf(again.Tasks), latest[2:4]) { // its answer was lost
		t.Errorf("the first batch, again: %+v", again)
	}
	filter.Cursor = first.Next
	if rest := s.changeAll(wire.BulkRetry, filter); !slices.Equal(idsOf(rest.Tasks), latest[4:]) {
		t.Errorf("the rest: %+v", rest)
	}
	for _, id := range ids {
		was, _, err := s.Store.Task(s.ctx(), id)
		must(t, err)
		is, _, err := s.Store.Task(s.ctx(), was.RetriedAs)
		must(t, err)
		if was.State != jobs.StateFailed || was.Fingerprint != "" || is.State != jobs.StatePending || is.RetryOf != id || string(is.Payload) != string(was.Payload) ||
			is.Reason != "retry of "+id+" by carol" || is.By != "carol" || is.ReasonCode != reason.Retry || is.Attempt != 0 {
			t.Errorf("%+v\nwas retried as %+v", was, is)
		}
	}
	got := s.changeAll(wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}, Force: true})
	if got.Done != 1 || got.Tasks[0].ID != other[0] || len(got.Skipped) != 1 || got.Skipped[0].Count != 5 || got.Skipped[0].Reason != "was retried before" || got.Skipped[0].TaskID != latest[0] {
		t.Errorf("all of the pool: %+v", got)
	}
	s.wantInt(6, "SELECT COUNT(*) FROM {tasks}")

	// Those of a batch run in the order in which they failed.
	s.DB.Exec(t, "DELETE FROM {tasks}")
	ids = s.fails("again", "a", "b", "c")
	s.changeAll(wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "again"}})
	for i, task := range s.claim("again", 5) {
		if task.RetryOf != ids[i] {
			t.Errorf("the retry %d is of %s, want %s", i, task.RetryOf, ids[i])
		}
	}

	// Those of jobs, and those that nobody can run, are skipped, and said to be.
	decision := run("a", due(1), true)
	started, err := s.decide(decision)
	must(t, err)
	s.finish(ledger.Result{TaskID: started.Started[0].ID, Token: started.Started[0].Token, Verdict: ledger.Ended, State: jobs.StateFailed, Error: "x"})
	if got := s.changeAll(wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{Job: "a"}, Force: true}); got.Done != 0 || len(got.Skipped) != 1 || !strings.Contains(got.Skipped[0].Reason, "is of a job") {
		t.Errorf("of a job: %+v", got)
	}
	s.fails("work", "x")
	s.DB.Exec(t, "UPDATE {done} SET pool='gone' WHERE pool='work' AND retried_as='' AND state='failed'")
	gone := wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "gone"}}
	if got := s.changeAll(wire.BulkRetry, gone); got.Done != 0 || len(got.Skipped) != 1 || !strings.Contains(got.Skipped[0].Reason, "gone") {
		t.Errorf("of no pool: %+v", got)
	}
	gone.Force = true
	if got := s.changeAll(wire.BulkRetry, gone); got.Done != 1 {
		t.Errorf("of no pool, forced: %+v", got)
	}
}

// In a pool with an order, retried tasks have places in it, behind those that were there.
func bulkRetryOrdered(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := definitions()
	d.Pools[0].Order = jobs.OrderKey
	_, err := s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	var failed []string
	for range 3 {
		all, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "again", Key: "ann", Force: true})
		must(t, err)
		task := s.claim("again", 1)[0]
		s.finish(result(task, ledger.Ended, jobs.StateFailed))
		failed = append(failed, all[0].Task.ID)
	}
	before, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "again", Key: "ann", Force: true})
	must(t, err)
	got := s.changeAll(wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "again"}, Force: true})
	if got.Done != 3 {
		t.Fatalf("%+v", got)
	}
	want := append([]string{before[0].Task.ID}, failed...)
	for i, id := range want {
		tasks := s.claim("again", 5)
		if len(tasks) != 1 || tasks[0].ID != id && tasks[0].RetryOf != id {
			t.Fatalf("%d: %d tasks started, want that of %s: %+v", i, len(tasks), id, tasks)
		}
		s.finish(result(tasks[0], ledger.Ended, jobs.StateSucceeded))
		s.DB.Exec(t, "UPDATE {keys} SET look_at=1")
	}
}

// Of several that retry the same at once, one retries each task.
func bulkRetryTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const n = 60
	s.fails("work", slices.Repeat([]string{"x"}, n)...)
	var all [3]wire.BulkResult
	var group sync.WaitGroup
	for i := range all {
		other := s
		if i > 0 {
			other = s.second(fmt.Sprint("r", i))
		}
		group.Go(func() {
			all[i] = other.changeAll(wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}, Limit: 7, Force: true})
		})
	}
	group.Wait()
	if done := all[0].Done + all[1].Done + all[2].Done; done != n {
		t.Errorf("%d were retried, want %d", done, n)
	}
	s.wantInt(n, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(n, "SELECT COUNT(DISTINCT retry_of) FROM {tasks}")
	s.wantInt(0, "SELECT COUNT(*) FROM {done} WHERE retried_as=''")
}

// A cancellation ends what is pending, and asks what runs once.
func bulkCancel(t *testing.T, b *Bench) {
	s := newScene(t, b)
	running := s.enqueue("work", 2)
	s.claim("work", 2)
	pending := s.enqueue("work", 3)
	later, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", RunAt: due(1_000_000), Force: true})
	must(t, err)
	s.enqueue("default", 1)
	if got := s.changeAll(wire.BulkCancel, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work", State: jobs.StateRunning}, DryRun: true}); got.Done != 2 {
		t.Errorf("those that run: %+v", got)
	}
	filter := wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}, Limit: 2, By: "dave"}
	if got := s.changeAll(wire.BulkCancel, filter); got.Done != 6 || len(got.Skipped) != 0 {
		t.Errorf("%+v", got)
	}
	for _, id := range append(pending, later[0].Task.ID) {
		s.want("a pending task", s.task(id), "cancelled attempt 0 token 0 replica -: cancelled by dave")
	}
	for _, id := range running {
		s.want("the request to a running task", s.DB.Text(t, "SELECT cancel FROM {tasks} WHERE id=?", id), "cancelled by dave")
	}
	again := s.changeAll(wire.BulkCancel, filter)
	if again.Done != 0 || again.Matched != 2 || again.Skipped[0].Reason != "was asked to stop before" {
		t.Errorf("again: %+v", again)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE pool='default'")
	s.wantInt(0, "SELECT COUNT(*) FROM {events}")
}

// gone deletes a row, as its end or the retention does, while a call has read it and is about to write it. It returns once the call has.
func (s *scene) gone(table, id, statement string, call func()) {
	s.t.Helper()
	lock, err := s.DB.Handle().BeginTx(s.ctx(), nil)
	must(s.t, err)
	defer func() { _ = lock.Rollback() }()
	must(s.t, lock.QueryRowContext(s.ctx(), "SELECT id FROM lockstep_"+table+" WHERE id=? FOR UPDATE", id).Scan(new(string)))
	var group sync.WaitGroup
	group.Go(call)
	await.Until(s.t, "the call has read the row, and waits for it", func() bool {
		return s.DB.Int(s.t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE '"+statement+"%' AND id<>CONNECTION_ID()") == 1
	})
	_, err = lock.ExecContext(s.ctx(), "DELETE FROM lockstep_"+table+" WHERE id=?", id)
	must(s.t, err)
	must(s.t, lock.Commit())
	group.Wait()
}

// A running task that ends while a batch asks for its cancellation is skipped, and the others are asked.
func bulkCancelEnded(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of a batch
	}
	s := newScene(t, b)
	ids := s.enqueue("work", 3)
	s.claim("work", 3)
	var got wire.BulkResult
	s.gone("tasks", ids[1], "UPDATE {tasks}", func() {
		got = s.change(wire.BulkCancel, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}, By: "dave"})
	})
	if got.Matched != 3 || got.Done != 2 || !slices.Equal(idsOf(got.Tasks), []string{ids[2], ids[0]}) || len(got.Skipped) != 1 || got.Skipped[0].TaskID != ids[1] || got.Skipped[0].Reason != "has ended meanwhile" {
		t.Errorf("%+v", got)
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {tasks} WHERE cancel='cancelled by dave'")
}

// An ended task that is deleted while a batch is about to delete it is not counted.
func bulkPurgeGone(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // as above
	}
	s := newScene(t, b)
	ids := s.fails("work", "a", "b")
	var got wire.BulkResult
	s.gone("done", ids[0], "DELETE%{done}", func() { got = s.change(wire.BulkPurge, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}}) })
	if got.Done != 1 || !slices.Equal(idsOf(got.Tasks), ids[1:]) {
		t.Errorf("%+v", got)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {done}")
}

// An ended task that is deleted while it is retried is not there any more, and nothing is made of it.
func retryGone(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // as above
	}
	s := newScene(t, b)
	id := s.fails("work", "a")[0]
	var err error
	s.gone("done", id, "UPDATE%{done}", func() { _, err = s.Store.Retry(s.ctx(), id, "carol", true) })
	if !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("retried: %v", err)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
}

// What is purged is gone with all that belonged to it.
func bulkPurge(t *testing.T, b *Bench) {
	s := newScene(t, b)
	task, _ := s.made()
	claimed, _ := s.taken(due(9))
	s.finish(ledger.Result{TaskID: claimed.ID, Token: claimed.Token, Verdict: ledger.Again, State: jobs.StateFailed, Output: []byte("first")})
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1")
	claimed, _ = s.taken(due(9))
	s.finish(ledger.Result{TaskID: claimed.ID, Token: claimed.Token, Verdict: ledger.Ended, State: jobs.StateFailed, Output: []byte("second")})
	unique, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Unique: &jobs.Unique{}, Force: true})
	must(t, err)
	s.finish(result(s.claim("work", 1)[0], ledger.Ended, jobs.StateSucceeded))
	kept := s.fails("default", "x")
	counts := func(want int64) {
		t.Helper()
		for _, table := range []string{"{attempts}", "{outputs}", "{idempotency}", "{unique_tasks}"} {
			if got := s.DB.Int(t, "SELECT COUNT(*) FROM "+table); (got > 0) != (want > 0) {
				t.Errorf("%s has %d rows", table, got)
			}
		}
	}
	counts(1)
	if got := s.changeAll(wire.BulkPurge, wire.Bulk{TaskMatch: wire.TaskMatch{IDs: []string{task.ID, unique[0].Task.ID, "none"}}, DryRun: true}); got.Done != 2 {
		t.Errorf("a dry run: %+v", got)
	}
	counts(1)
	if got := s.changeAll(wire.BulkPurge, wire.Bulk{TaskMatch: wire.TaskMatch{IDs: []string{task.ID, unique[0].Task.ID, "none", task.ID}}}); got.Done != 2 {
		t.Errorf("%+v", got)
	}
	counts(0)
	s.wantInt(1, "SELECT COUNT(*) FROM {done}")
	s.want("what is left", s.DB.Text(t, "SELECT id FROM {done}"), kept[0])

	// A lost attempt that may still run is not forgotten.
	lost := s.enqueue("work", 1)
	claim := s.claiming("work", 1)
	claim.Admit = func(time.Time, ledger.Candidate) (time.Time, bool) { return due(1_000_000), true }
	_, err = s.Store.Claim(s.ctx(), claim)
	must(t, err)
	living := s.second("living")
	s.die()
	living.reap()
	filter := wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}}
	if got := living.changeAll(wire.BulkPurge, filter); got.Done != 0 || got.Skipped[0].TaskID != lost[0] {
		t.Errorf("a lost task that may run: %+v", got)
	}
	s.DB.Exec(t, "UPDATE {done} SET may_run_until=1")
	if got := living.changeAll(wire.BulkPurge, filter); got.Done != 1 {
		t.Errorf("a lost task that has ended: %+v", got)
	}
}
