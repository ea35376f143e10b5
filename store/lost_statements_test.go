package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Whichever statement of an operation is lost, before or after it took effect, for a moment or with all
// that follow: the caller gets the outcome or jobs.ErrUnavailable, and after what every replica does
// anyway (hand back what it owns without having got the answer, reap, claim, finish again) every task has its one
// end. The statements are counted as they are sent, so a new one is tried too.
func TestLostStatements(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stage func(t *testing.T, f fate) *stage
		fates []fate
	}{
		"mysql": {behindEdge, []fate{
			{name: "the request is lost"},
			{name: "the reply is lost", done: true},
			{name: "the reply and all after it are lost", done: true, all: true},
			{name: "nobody answers", done: true, mute: true},
			{name: "it arrives late", late: true},
			{name: "it is overtaken", slow: true},
		}},
		"sqlite": {behindFaultyFile, []fate{
			{name: "it fails"},
			{name: "it fails afterwards", done: true},
			{name: "it fails afterwards, and all after it", done: true, all: true},
			{name: "somebody else writes", again: true},
		}},
	} {
		for _, f := range c.fates {
			t.Run(name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				s := c.stage(t, f)
				s.dialect = store.Dialect(name)
				s.enter()
				for _, o := range operations {
					if !t.Failed() {
						s.losing(o, f)
					}
				}
			})
		}
	}
}

// stage is a database that one replica works on.
type stage struct {
	t       *testing.T
	dialect store.Dialect
	cut     *cut
	wired   *store.Store // through the cut
	handle  *sql.DB      // through the cut
	plain   *store.Store
	db      rows

	session string
	due     time.Time // of the job, so far
}

// operation is one call of the store: prepared, done through the cut, and checked.
type operation struct {
	name  string
	scene func(p *play) (call func(ctx context.Context) error, look func(err error))
}

const most = 60 // statements of one operation

// losing does the operation again and again, each time with a later statement lost, until it sends
// fewer.
func (s *stage) losing(o operation, f fate) {
	s.t.Helper()
	for k := 1; k <= most; k++ {
		lost := s.play(o, f, k)
		if s.t.Failed() {
			return
		}
		if len(lost) == 0 {
			s.t.Logf("%s: %d statements", o.name, k-1)
			if k < 3 && !f.slow {
				s.t.Errorf("%s: only %d statements are seen", o.name, k-1)
			}
			return
		}
	}
	s.t.Errorf("%s: more than %d statements", o.name, most)
}

// soon is how long a caller waits whose statement was lost.
const soon = 20 * time.Millisecond

// play does the operation once, its statement k being lost, and returns what was lost.
func (s *stage) play(o operation, f fate, k int) []string {
	s.t.Helper()
	p := &play{stage: s, what: fmt.Sprintf("%s, %s, %d", o.name, f.name, k), starts: map[string]int{}, knows: map[string]jobs.Task{}, ended: map[string]jobs.State{}}
	call, look := o.scene(p)
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	s.cut.arm(f, k, func() {
		if f.lasts() {
			time.AfterFunc(soon, cancel)
		}
	})
	err := call(ctx)
	lost := s.cut.disarm()
	p.what += fmt.Sprintf(" %.60q", strings.Join(lost, "; "))
	switch {
	case err != nil && len(lost) == 0:
		p.errorf("nothing was lost: %v", err)
	case err != nil && !errors.Is(err, jobs.ErrUnavailable):
		p.errorf("%v, want nil or %v", err, jobs.ErrUnavailable)
	case err != nil && !f.lasts() && o.settles(f, lost):
		p.errorf("%v: it could have been settled", err)
	}
	look(err)
	if !s.t.Failed() {
		p.ends()
	}
	return lost
}

// settles reports whether the store can find out by itself: the line works again.
func (o operation) settles(f fate, lost []string) bool {
	return o.name != enqueueTx && (f.again || !strings.Contains(f.name, "fails") || lost[0] == "COMMIT")
}

// play is one scene: its tasks, and the replica's data about them.
type play struct {
	*stage
	what   string
	tasks  []string              // that exist, and each of which ends once
	starts map[string]int        // of each
	knows  map[string]jobs.Task  // what the replica is at
	ended  map[string]jobs.State // how each does, if it does not succeed
}

func (p *play) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("%s: %s", p.what, fmt.Sprintf(format, args...))
}

func (p *play) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", p.what, err)
	}
}

// count holds how many rows there are.
func (p *play) count(want int64, query string, args ...any) {
	p.t.Helper()
	if got := p.db.Int(p.t, "SELECT COUNT(*) FROM "+query, args...); got != want {
		p.errorf("%d rows of %s %v, want %d", got, query, args, want)
	}
}

// start is what a replica does with a task that it got as claimed. It must own the task.
func (p *play) start(tasks ...jobs.Task) {
	p.t.Helper()
	for _, task := range tasks {
		p.count(1, "{tasks} WHERE id=? AND state=2 AND session_id=? AND token=?", task.ID, p.session, task.Token)
		p.starts[task.ID]++
		p.knows[task.ID] = task
	}
}

// ends does what replicas do all the time until nothing is left, and holds that each task had one end.
func (p *play) ends() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	for open := int64(1); open > 0 && !p.t.Failed(); open = p.db.Int(p.t, "SELECT COUNT(*) FROM {tasks}") {
		p.handBack(ctx)
		_, err := p.plain.Sides().Replica.Ready(ctx, asIs)
		p.check(err)
		p.claim(ctx)
		p.finish(ctx)
	}
	for _, id := range p.tasks {
		p.count(1, "{done} WHERE id=? AND state=?", id, string(cmp.Or(p.ended[id], jobs.StateSucceeded)))
		attempts := p.db.Int(p.t, "SELECT COALESCE(MAX(attempt), 0) FROM {done} WHERE id=?", id)
		p.count(max(attempts, 1)-1, "{attempts} WHERE task_id=?", id)
		if n := p.starts[id]; int64(n) != attempts {
			p.errorf("task %s was started %d times, and has %d attempts", id, n, attempts)
		}
	}
}

// handBack hands back the tasks that the replica owns without having got the answer.
func (p *play) handBack(ctx context.Context) {
	own, err := p.plain.Sides().Replica.Running(ctx, p.session)
	p.check(err)
	var results []ledger.Result
	for _, o := range own.Own {
		if _, known := p.knows[o.TaskID]; !known {
			results = append(results, ledger.Result{TaskID: o.TaskID, Token: o.Token, Verdict: ledger.HandBack})
		}
	}
	_, err = p.plain.Sides().Replica.Finish(ctx, p.session, results)
	p.check(err)
}

func (p *play) claim(ctx context.Context) {
	claimed, err := p.plain.Sides().Replica.Claim(ctx, p.claiming(p.session))
	p.check(err)
	p.start(tasksOf(claimed.Tasks)...)
}

func (p *play) claiming(session string) ledger.Claim {
	return ledger.Claim{
		Admission: ledger.Admission{
			Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "h", Room: 9}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
		},
		Pool: "p",
		ID:   newID(),
		Now:  asIs,
	}
}

// finish ends what the replica is at.
func (p *play) finish(ctx context.Context) {
	var results []ledger.Result
	for _, task := range p.knows {
		results = append(results, ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Task: &task})
	}
	finished, err := p.plain.Sides().Replica.Finish(ctx, p.session, results)
	p.check(err)
	p.recorded(finished)
	clear(p.knows)
}

func (p *play) recorded(finished []ledger.Finished) {
	p.t.Helper()
	for _, f := range finished {
		if f.Finish != ledger.Recorded {
			p.errorf("the result of %s is %s", f.TaskID, f.Finish)
		}
	}
}

// enter makes the replica, its jobs and its pool.
func (s *stage) enter() {
	s.t.Helper()
	var err error
	if s.session, err = s.plain.Sides().Replica.Join(s.t.Context(), ledger.Member{Replica: "r", LockService: "x"}); err != nil {
		s.t.Fatal(err)
	}
	_, err = s.plain.Sides().Replica.Load(s.t.Context(), s.session, ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "j", Hash: "h", Schedule: "s", Next: hourly}, {Name: "k", Hash: "h", Schedule: "s", Next: hourly}},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 9, Retry: true}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.due = time.Now().UTC().Truncate(time.Second).Add(time.Hour)
}

func asIs(now time.Time) (time.Time, error) { return now, nil }

func hourly(at time.Time) time.Time { return at.Add(time.Hour) }
