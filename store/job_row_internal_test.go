package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// contest is a store with the jobs a, b and c, and a pool, and what others have locked of it.
type contest struct {
	*Store
	t       *testing.T
	session string
}

func newContest(t *testing.T) contest {
	t.Helper()
	s := migrated(t, "mysql", servers.MySQL(t), Options{})
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	q := contest{s, t, session}
	if _, err := s.Sides().Replica.Load(t.Context(), session, q.definitions("")); err != nil {
		t.Fatal(err)
	}
	return q
}

// hold locks rows in a transaction that ends with release, and not by itself.
func (q contest) hold(query string, args ...any) (release func()) {
	q.t.Helper()
	ctx := q.t.Context()
	pool := q.db.Pool
	conn, err := pool.Conn(ctx)
	if err != nil {
		q.t.Fatal(err)
	}
	_, _ = conn.ExecContext(ctx, "SET SESSION idle_transaction_timeout=0") // MySQL has no such setting
	if _, err := conn.ExecContext(ctx, "SET SESSION wait_timeout=300"); err != nil {
		q.t.Fatal(err)
	}
	t := q.within(ctx, conn)
	if _, err := t.Exec("START TRANSACTION"); err != nil {
		q.t.Fatal(err)
	}
	if err := t.Query(query+" FOR UPDATE", args, func(func(...any) error) error { return nil }); err != nil {
		q.t.Fatal(err)
	}
	return func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // with its setting
		_ = conn.Close()
	}
}

func (q contest) holdJobs(names ...string) (release func()) {
	q.t.Helper()
	list, args := sqlkit.List(names)
	return q.hold("SELECT name FROM {jobs} WHERE name IN "+list+" ORDER BY name", args...)
}

// waits returns when a transaction waits for a row.
func (q contest) waits() {
	q.t.Helper()
	q.waitsFor("a row", "%LIMIT 1 FOR UPDATE")
}

// waitsFor returns when a connection runs a statement like this.
func (q contest) waitsFor(what, like string) {
	q.t.Helper()
	await.Until(q.t, "somebody waits for "+what, func() bool {
		return text(q.t, q.Store, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND id<>CONNECTION_ID() AND info LIKE '"+like+"'") == "1"
	})
}

// decide returns the jobs that were decided, and those that were not.
func (q contest) decide(guard bool, names ...string) (asked, busy []string, err error) {
	got, err := q.Sides().Replica.Decide(q.t.Context(), ledger.Decide{
		Admission: ledger.Admission{Session: q.session, Replica: "a"},
		Jobs:      names,
		Guard:     guard,
		Now:       func(now time.Time) (time.Time, error) { return now, nil },
		Decide: func(_ time.Time, states []ledger.JobState) []ledger.Decision {
			asked = nil
			for _, s := range states {
				asked = append(asked, s.Name)
			}
			return nil
		},
	})
	return asked, got.Busy, err
}

func wantNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}

// What is free is decided while others have the rest, be it a job or the row of its stripe.
func TestWhatIsFreeIsDecided(t *testing.T) {
	q := newContest(t)
	for _, c := range []struct {
		name    string
		guard   bool
		release func()
	}{
		{"job", false, q.holdJobs("b")},
		{"stripe", true, q.hold("SELECT stripe FROM {stripes} WHERE stripe=?", ledger.Stripe("b"))},
	} {
		asked, busy, err := q.decide(c.guard, "c", "b", "a")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		wantNames(t, c.name+": asked about", asked, "a", "c")
		wantNames(t, c.name+": busy", busy, "b")
		c.release()
	}
	release := q.hold("SELECT stripe FROM {stripes} WHERE stripe=?", ledger.Stripe("b"))
	asked, busy, err := q.decide(false, "c", "b", "a")
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, "beside a stripe that is no guard: asked about", asked, "a", "b", "c")
	wantNames(t, "beside a stripe that is no guard: busy", busy)
	release()
	asked, busy, err = q.decide(true, "c", "b", "a", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, "asked about", asked, "a", "b", "c")
	wantNames(t, "busy, for all it knows", busy, "nobody")
	if asked, busy, err = q.decide(true, busy...); err != nil || len(asked)+len(busy) > 0 {
		t.Errorf("of a job that does not exist: asked about %q, busy %q, %v", asked, busy, err)
	}
	if err := q.sure(t.Context(), "test", func(t *tx) error { _, err := t.Exec("DELETE FROM {stripes}"); return err }); err != nil {
		t.Fatal(err)
	}
	if asked, _, err = q.decide(true, "a"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, "asked about, where there are no stripes", asked, "a")
	if asked, busy, err = q.decide(true); err != nil || len(asked)+len(busy) > 0 {
		t.Errorf("of no jobs: asked about %q, busy %q, %v", asked, busy, err)
	}
	release = q.holdJobs("b", "c")
	if asked, busy, err = q.decide(false, "c", "b", "a", "b"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, "asked about, named twice", asked, "a")
	wantNames(t, "busy, named twice", busy, "b", "c")
	release()
}

// However many rows there are: none is waited for while one is free, and no needless statement is sent.
func TestLooksForFreeRows(t *testing.T) {
	const look, wait = "{for_update}{skip_locked}", " LIMIT 1{for_update}"
	failed := errors.New("failed")
	type answer struct {
		rows []int
		err  error
	}
	for name, c := range map[string]struct {
		n       int
		answers []answer
		asked   []string
		want    answer
	}{
		"of none":                        {n: 0},
		"some are free":                  {3, []answer{{rows: []int{2}}}, []string{look}, answer{rows: []int{2}}},
		"the first becomes free":         {3, []answer{{}, {rows: []int{1}}, {rows: []int{1, 3}}}, []string{look, wait, look}, answer{rows: []int{1, 3}}},
		"the only one becomes free":      {1, []answer{{}, {rows: []int{1}}}, []string{look, wait}, answer{rows: []int{1}}},
		"there are none":                 {3, []answer{{}, {}}, []string{look, wait}, answer{}},
		"the look fails":                 {3, []answer{{err: failed}}, []string{look}, answer{err: failed}},
		"the wait fails":                 {3, []answer{{}, {err: failed}}, []string{look, wait}, answer{err: failed}},
		"the wait fails with one":        {3, []answer{{}, {[]int{1}, failed}}, []string{look, wait}, answer{[]int{1}, failed}},
		"the look after the wait failed": {3, []answer{{}, {rows: []int{1}}, {err: failed}}, []string{look, wait, look}, answer{err: failed}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			rows, err := lockFree(c.n, func(lock string) ([]int, error) {
				asked = append(asked, lock)
				if len(asked) > len(c.answers) {
					t.Fatalf("asked %q", asked)
				}
				a := c.answers[len(asked)-1]
				return a.rows, a.err
			})
			wantNames(t, "asked", asked, c.asked...)
			if !slices.Equal(rows, c.want.rows) || !errors.Is(err, c.want.err) {
				t.Errorf("got %v, %v", rows, err)
			}
		})
	}
}

// If others have all, a transaction waits for the first without holding any, and then locks what is free by now.
func TestWhoWaitsHoldsNothing(t *testing.T) {
	q := newContest(t)
	for _, guard := range []bool{false, true} {
		a, b, c := q.holdJobs("a"), q.holdJobs("b"), q.holdJobs("c")
		var asked, busy []string
		var g errgroup.Group
		g.Go(func() (err error) {
			asked, busy, err = q.decide(guard, "c", "b", "a")
			return err
		})
		q.waits()
		c()
		c = q.holdJobs("c") // the waiting transaction does not have it
		b()
		a()
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		wantNames(t, "asked about", asked, "a", "b")
		wantNames(t, "busy", busy, "c")
		c()
	}
}

// A claim waits for the row of its pool if that guards it, or if it counts what runs there; else for no other transaction.
func TestWhoCountsWaitsForThePool(t *testing.T) {
	q := newContest(t)
	if _, err := q.Enqueue(t.Context(), slices.Repeat([]jobs.NewTask{{Pool: "p"}}, 3)...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		guard bool
		most  int
		waits bool
	}{{"neither", false, 0, false}, {"guard", true, 0, true}, {"limit", false, 9, true}} {
		release := q.hold("SELECT name FROM {pools} WHERE name='p'")
		var got ledger.Claimed
		var g errgroup.Group
		g.Go(func() (err error) {
			got, err = q.Sides().Replica.Claim(t.Context(), ledger.Claim{
				Admission: ledger.Admission{
					Session: q.session, Replica: "a", Pools: map[string]ledger.Share{"p": {Hash: "h", Limited: c.most > 0, Room: 1}},
					Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
				},
				Pool:  "p",
				ID:    uuid.NewString(),
				Guard: c.guard,
				Now:   func(now time.Time) (time.Time, error) { return now, nil },
			})
			return err
		})
		if c.waits {
			q.waitsFor("the pool", "%{pools}%FOR UPDATE")
			release()
		}
		if err := g.Wait(); err != nil || len(got.Tasks) != 1 {
			t.Errorf("%s: claimed %d, %v", c.name, len(got.Tasks), err)
		}
		if !c.waits {
			release()
		}
	}
}

// A claim skips tasks with a job that another transaction is writing, and waits for one if there are only such.
func TestWhatIsFreeIsClaimed(t *testing.T) {
	q := newContest(t)
	for _, job := range []string{"b", "a", ""} { // in the order of claims
		task, err := q.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.sure(t.Context(), "test", func(t *tx) error {
			_, err := t.Exec("UPDATE {tasks} SET job=? WHERE id=?", job, task[0].Task.ID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	claim := func() (names []string, more bool, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		got, err := q.Sides().Replica.Claim(ctx, ledger.Claim{
			Admission: ledger.Admission{
				Session: q.session, Replica: "a", Pools: map[string]ledger.Share{"p": {Hash: "h", Room: 10}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
			},
			Pool: "p",
			ID:   uuid.NewString(),
			Now:  func(now time.Time) (time.Time, error) { return now, nil },
		})
		for _, task := range got.Tasks {
			names = append(names, task.Job)
		}
		for _, task := range got.Foreign {
			t.Errorf("the task of job %q, which is busy, counts as one that is not admitted", task.Job)
		}
		slices.Sort(names)
		return names, got.More, err
	}
	a, b := q.holdJobs("a"), q.holdJobs("b")
	names, more, err := claim()
	if err != nil || !more {
		t.Fatalf("more is %v, error %v", more, err)
	}
	wantNames(t, "claimed beside two that are busy", names, "")
	var g errgroup.Group
	g.Go(func() (err error) {
		names, more, err = claim()
		return err
	})
	q.waits()
	a()
	if err := g.Wait(); err != nil || !more {
		t.Fatalf("more is %v, error %v", more, err)
	}
	wantNames(t, "claimed after waiting", names, "a")
	b()
	if names, more, err = claim(); err != nil || more {
		t.Fatalf("more is %v, error %v", more, err)
	}
	wantNames(t, "claimed in the end", names, "b")
}

// definitions are those of the contest, and the job a with a schedule.
func (q contest) definitions(schedule string) ledger.Definitions {
	d := ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "h" + schedule, MaxAttempts: 1}}}
	for _, name := range []string{"a", "b", "c"} {
		d.Jobs = append(d.Jobs, ledger.JobDef{Name: name, Stripe: ledger.Stripe(name), Hash: "h", Next: func(at time.Time) time.Time { return at.Add(time.Minute) }})
	}
	d.Jobs[0].Schedule = schedule
	return d
}

// changes writes to rows in a transaction that ends with commit.
func (q contest) changes(text string, args ...any) (commit func()) {
	q.t.Helper()
	pool := q.db.Pool
	change, err := pool.BeginTx(context.WithoutCancel(q.t.Context()), nil)
	if err != nil {
		q.t.Fatal(err)
	}
	if _, err := change.ExecContext(q.t.Context(), q.db.Text(text), args...); err != nil {
		q.t.Fatal(err)
	}
	return func() {
		q.t.Helper()
		if err := change.Commit(); err != nil {
			q.t.Error(err)
		}
	}
}

// A transaction that writes definitions waits for others that write the same rows, and keeps what they wrote.
func TestDefinitionsKeepWhatIsWrittenBeside(t *testing.T) {
	q := newContest(t)
	for i, c := range []struct{ what, change, waits, after, want string }{
		{"a job's fence", "UPDATE {jobs} SET fence=fence+7 WHERE name='a'", "%{jobs}%WHERE name IN%FOR UPDATE", "SELECT fence FROM {jobs} WHERE name='a'", "7"},
		{"a pool's pause", "UPDATE {pools} SET paused=1 WHERE name='p'", "%{pools}%WHERE name IN%FOR UPDATE", "SELECT paused FROM {pools} WHERE name='p'", "1"},
	} {
		commit := q.changes(c.change)
		var g errgroup.Group
		g.Go(func() error {
			got, err := q.Sides().Replica.Assert(t.Context(), q.session, q.definitions(string(rune('1'+i))))
			if err == nil && !got.Governs {
				err = errors.New("it does not govern")
			}
			return err
		})
		q.waitsFor(c.what, c.waits)
		commit()
		if err := g.Wait(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := text(t, q.Store, c.after); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}

	commit := q.changes("UPDATE {sessions} SET dead=1 WHERE id=?", q.session)
	var g errgroup.Group
	g.Go(func() error {
		_, err := q.Sides().Replica.Assert(t.Context(), q.session, q.definitions("of the dead"))
		return err
	})
	q.waitsFor("the end of the session", "%{sessions}%FOR UPDATE")
	commit()
	if err := g.Wait(); !errors.Is(err, ledger.ErrSessionDead) {
		t.Errorf("of a session that was ended beside it: %v", err)
	}
	if got := text(t, q.Store, "SELECT COUNT(*) FROM {jobs} WHERE schedule='of the dead'"); got != "0" {
		t.Error("a dead session wrote a job")
	}
}

// A check of definitions that hold waits for no lock.
func TestDefinitionsThatHoldWaitForNoLock(t *testing.T) {
	q := newContest(t)
	for _, release := range []func(){
		q.holdJobs("a", "b", "c"), q.hold("SELECT name FROM {pools} WHERE name='p'"), q.hold("SELECT id FROM {sessions} WHERE id=?", q.session),
	} {
		defer release()
	}
	d := q.definitions("")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got, err := q.Sides().Replica.Assert(ctx, q.session, d); err != nil || !got.Governs {
		t.Errorf("%+v, %v", got, err)
	}
}
