package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var kindCases = []Case{
	{"Kinds/Enqueue", enqueueKinds},
	{"Kinds/Refused", refusedKinds},
	{"Kinds/Known", enqueueKnownKey},
	{"Kinds/AddPools", addPoolKinds},
	{"Kinds/Retry", retryKinds},
	{"Kinds/Waiting", waitForNobody},
	{"Kinds/Beside", claimBeside},
	{"Kinds/Draining", runBesideDraining},
	{"Kinds/Any", runAny},
}

// withKinds is a configuration whose pool work has these kinds, all with one handler; the other pools have no kinds.
func withKinds(kinds ...string) ledger.Definitions {
	d := definitions()
	d.Pools[2].Kinds = map[string]string{}
	for _, kind := range kinds {
		d.Pools[2].Kinds[kind] = "1"
	}
	d.Pools[2].Hash = fmt.Sprintf("%q", kinds)
	return d
}

// claimUnder is a claim in the pool work of a configuration.
func (s *scene) claimUnder(d ledger.Definitions, limit int) ([]jobs.Task, error) {
	c := s.claiming("work", limit)
	share(&c, func(s *ledger.Share) { s.Hash = d.Pools[2].Hash })
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	return got.Tasks, err
}

// load gives the replica a configuration.
func (s *scene) load(d ledger.Definitions) {
	s.t.Helper()
	_, err := s.Store.Load(s.ctx(), s.session, d)
	must(s.t, err)
}

// refuses reports what kinds an enqueue was refused with; nil: it was not. A transaction of the caller's gets the same
// answer.
func (s *scene) refuses(pool, kind string) *jobs.KindError {
	s.t.Helper()
	task := jobs.NewTask{Pool: pool, Kind: kind}
	_, err := s.Store.Enqueue(s.ctx(), task)
	if st, is := sqlOf(s.Store); is {
		tx := begin(s.t, s.Bench)
		_, within := st.EnqueueTx(s.ctx(), tx, task)
		must(s.t, tx.Rollback())
		var one, other *jobs.KindError
		if errors.As(err, &one) != errors.As(within, &other) || !cmp.Equal(one, other) || (err == nil) != (within == nil) {
			s.t.Fatalf("kind %q: Enqueue: %v; EnqueueTx: %v", kind, err, within)
		}
	}
	if err == nil {
		return nil
	}
	refused, ok := errors.AsType[*jobs.KindError](err)
	if !ok || !errors.Is(err, jobs.ErrNoHandler) || !errors.Is(err, jobs.ErrInvalid) || refused.Pool != pool || refused.Kind != kind {
		s.t.Fatalf("kind %q: %v", kind, err)
	}
	return refused
}

func (s *scene) accepts(want bool, pool string, kinds ...string) {
	s.t.Helper()
	for _, kind := range kinds {
		if refused := s.refuses(pool, kind); (refused == nil) != want {
			s.t.Errorf("kind %q in pool %s: %v", kind, pool, refused)
		}
	}
}

// What neither the configuration that governs nor any live replica has is refused.
func enqueueKinds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax", "mail"))
	s.accepts(true, "work", "fax", "mail")
	s.accepts(true, "default", "", "whatever") // says nothing
	s.accepts(false, "work", "", "mial", "Mail")
	if refused := s.refuses("work", "mial"); !slices.Equal(refused.Kinds, []string{"fax", "mail"}) || refused.Index != 0 {
		t.Errorf("refused: %+v", refused)
	}

	// All or none, the answer names the first, and Force is for one task.
	before := s.DB.Int(t, "SELECT COUNT(*) FROM {tasks}")
	_, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "fax"}, jobs.NewTask{Pool: "work", Kind: "x", Force: true}, jobs.NewTask{Pool: "work", Kind: "y"})
	if refused, ok := errors.AsType[*jobs.KindError](err); !ok || refused.Index != 2 || refused.Kind != "y" {
		t.Errorf("a list: %v", err)
	}
	s.wantInt(before, "SELECT COUNT(*) FROM {tasks}")
	_, err = b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "x", Force: true})
	must(t, err)

	// A rolling upgrade: what the newer one does not have, the older one may not claim.
	newer := s.second("two")
	newer.load(withKinds("mail", "sms"))
	s.accepts(true, "work", "mail", "sms")
	s.accepts(false, "work", "fax", "mms")
	if refused := s.refuses("work", "mms"); !slices.Equal(refused.Kinds, []string{"mail", "sms"}) {
		t.Errorf("refused: %+v", refused)
	}
	s.die()
	s.accepts(false, "work", "fax")
	newer.die()
	s.accepts(true, "work", "mail", "sms") // no live replica: what governed last
	s.accepts(false, "work", "fax")

	// An older program does not write its kinds.
	older := s.second("three")
	older.load(withKinds("fax"))
	b.DB.Exec(t, "DELETE FROM {kinds} WHERE config>0")
	s.accepts(true, "work", "whatever")
	older.die()

	// It differs from a program that has none.
	d := withKinds()
	for i := range d.Pools {
		d.Pools[i].Kinds = map[string]string{}
	}
	for _, name := range []string{"four", "five"} {
		s.second(name).load(d)
		s.accepts(false, "work", "", "fax")
	}
}

// A refusal says what the configuration that governs has, and what live replicas have besides, with tasks that have no kind.
func refusedKinds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("", "fax"))
	newer := s.second("two")
	newer.load(withKinds("mail"))
	newer.die()
	refused := s.refuses("work", "maill")
	if refused == nil || !slices.Equal(refused.Kinds, []string{"", "fax", "mail"}) {
		t.Errorf("refused: %#v", refused)
	}
}

// A task that exists under its idempotency key is answered, whichever replicas are live now.
func enqueueKnownKey(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax"))
	task := jobs.NewTask{Pool: "work", Kind: "fax", IdempotencyKey: "k"}
	first, err := b.Store.Enqueue(s.ctx(), task)
	must(t, err)
	s.load(withKinds("mail"))
	again, err := b.Store.Enqueue(s.ctx(), task)
	must(t, err)
	if !again[0].Existed || again[0].Task.ID != first[0].Task.ID {
		t.Errorf("again: %+v", again[0])
	}
	task.IdempotencyKey = "other"
	if _, err := b.Store.Enqueue(s.ctx(), task); !errors.Is(err, jobs.ErrNoHandler) {
		t.Errorf("another one: %v", err)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {idempotency} WHERE idem_key='other'")
}

// A retry of what no replica can run any more is refused as its enqueue would be, unless it is forced.
func retryKinds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax"))
	enqueued, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "fax"})
	must(t, err)
	id := enqueued[0].Task.ID
	claimed, err := s.claimUnder(withKinds("fax"), 1)
	must(t, err)
	s.finish(result(claimed[0], ledger.Ended, jobs.StateFailed))
	s.load(withKinds("mail"))
	_, err = b.Store.RetryTask(s.ctx(), id, "", false)
	if refused, ok := errors.AsType[*jobs.KindError](err); !ok || refused.Pool != "work" || refused.Kind != "fax" || !slices.Equal(refused.Kinds, []string{"mail"}) {
		t.Errorf("of a kind that is gone: %v", err)
	}
	s.wantEmpty("tasks")
	forced, err := b.Store.RetryTask(s.ctx(), id, "", true)
	must(t, err)
	if forced.Kind != "fax" || forced.State != jobs.StatePending {
		t.Errorf("forced: %+v", forced)
	}
	d := withKinds()
	d.Pools = d.Pools[:2]
	s.load(d)
	if _, err := b.Store.RetryTask(s.ctx(), id, "", false); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("in a pool that is gone: %v", err)
	} else if _, is := sqlOf(b.Store); is && !strings.Contains(err.Error(), "use force") {
		t.Errorf("what to do about a pool that is gone is not said: %v", err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks}")
	_, err = b.Store.RetryTask(s.ctx(), id, "", true)
	must(t, err)
	s.load(withKinds("fax", "mail"))
	_, err = b.Store.RetryTask(s.ctx(), id, "", false)
	must(t, err)
	s.wantInt(3, "SELECT COUNT(*) FROM {tasks}")
}

// Programs that enqueue before a replica has come may say what kinds there are.
func addPoolKinds(t *testing.T, b *Bench) {
	s := &scene{Bench: b, t: t}
	add := func(pool string, kinds ...string) {
		t.Helper()
		p := jobs.Pool{Kinds: map[string]jobs.Handler{}}
		for _, kind := range kinds {
			p.Kinds[kind] = nil
		}
		must(t, b.Store.AddPools(s.ctx(), map[string]jobs.Pool{pool: p}))
	}
	add("any")
	add("some", "fax")
	s.accepts(true, "any", "", "x")
	s.accepts(true, "some", "fax")
	s.accepts(false, "some", "", "mail")
	add("some", "mail") // by another program
	add("some")
	s.accepts(true, "some", "fax", "mail")
	s.accepts(false, "some", "", "x")

	s.replica, s.session = "one", s.join("one")
	s.accepts(false, "some", "", "x") // it has not loaded anything yet
	s.load(withKinds("mail"))
	add("work", "fax")
	s.accepts(false, "work", "fax") // what a replica has loaded stays as it is
	s.accepts(true, "work", "mail")

	// A retired pool is declared again: the kinds that a replica had in it before no longer count.
	d := withKinds("mail")
	d.Pools = d.Pools[:2]
	s.load(d)
	add("work", "fax")
	s.accepts(true, "work", "fax")
	s.accepts(false, "work", "mail")

	// A replica that has joined and not loaded yet can run nothing: what was declared since is still without a replica.
	add("some", "fax")
	s.accepts(true, "some", "fax")
	waits := func(when string) {
		t.Helper()
		all, err := b.Store.PoolStatuses(s.ctx())
		must(t, err)
		var kinds []string
		for _, p := range all {
			if p.Name == "some" {
				for _, u := range p.Unrunnable {
					kinds = append(kinds, u.Kind)
				}
			}
		}
		if !slices.Equal(kinds, []string{"fax", "mail"}) {
			t.Errorf("%s, tasks of the kinds %q wait for nobody", when, kinds)
		}
	}
	waits("beside a replica that has another pool")
	s.join("late")
	waits("beside one that has not loaded")
}

// Due tasks that no replica may claim are reported by pool and kind.
func waitForNobody(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax", "mail"))
	check := func(pool string, kinds []string, want ...ledger.Unrunnable) {
		t.Helper()
		all, err := b.Store.PoolStatuses(s.ctx())
		must(t, err)
		for _, p := range all {
			if p.Name != pool {
				continue
			}
			for i := range p.Unrunnable {
				if p.Unrunnable[i].Since.IsZero() {
					t.Error("it does not say since when")
				}
				p.Unrunnable[i].Since = want[min(i, len(want)-1)].Since
			}
			if d := cmp.Diff(want, p.Unrunnable); d != "" {
				t.Errorf("pool %s: %s", pool, d)
			}
			if d := cmp.Diff(kinds, p.Kinds); d != "" {
				t.Errorf("kinds of pool %s: %s", pool, d)
			}
		}
	}
	force := func(pool string, kinds ...string) {
		t.Helper()
		for _, kind := range kinds {
			_, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: pool, Kind: kind, Force: true})
			must(t, err)
		}
	}
	force("work", "fax", "old", "", "old", "mail")
	force("default", "", "x")
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	check("default", nil)
	check("work", []string{"fax", "mail"}, ledger.Unrunnable{Tasks: 1}, ledger.Unrunnable{Kind: "old", Tasks: 2})
	second := s.second("two") // which can run some of them
	second.load(withKinds("", "mail"))
	check("work", []string{"", "mail"}, ledger.Unrunnable{Kind: "fax", Tasks: 1}, ledger.Unrunnable{Kind: "old", Tasks: 2})
	s.die()
	check("work", []string{"", "mail"}, ledger.Unrunnable{Kind: "fax", Tasks: 1}, ledger.Unrunnable{Kind: "old", Tasks: 2})
	d := withKinds()
	d.Pools = d.Pools[:2]
	second.load(d)
	check("work", []string{}, ledger.Unrunnable{Tasks: 5}) // no replica has the pool
	d = withKinds("", "fax", "mail", "old")
	d.Pools[1].Kinds = map[string]string{}
	second.load(d)
	check("work", []string{"", "fax", "mail", "old"})
	check("default", []string{}, ledger.Unrunnable{Tasks: 1}, ledger.Unrunnable{Kind: "x", Tasks: 1}) // and not the job's

	// Each pool counts its own tasks alone, and those that wait and are of no job.
	d = withKinds("mail")
	d.Pools[1].Kinds = map[string]string{}
	second.load(d)
	check("default", []string{}, ledger.Unrunnable{Tasks: 1}, ledger.Unrunnable{Kind: "x", Tasks: 1})
	check("work", []string{"mail"}, ledger.Unrunnable{Tasks: 1}, ledger.Unrunnable{Kind: "fax", Tasks: 1}, ledger.Unrunnable{Kind: "old", Tasks: 2})
	b.DB.Exec(t, "UPDATE {tasks} SET state=2 WHERE kind IN ('x', 'fax')")
	b.DB.Exec(t, "UPDATE {tasks} SET job='b' WHERE kind='old'")
	check("default", []string{}, ledger.Unrunnable{Tasks: 1})
	check("work", []string{"mail"}, ledger.Unrunnable{Tasks: 1})

	second.die()
	check("default", []string{}, ledger.Unrunnable{Tasks: 1})
	check("work", []string{"mail"}, ledger.Unrunnable{Tasks: 1}) // no live replica: what governed last

	// The program of a replica that does not say what it has may have all of it.
	older := s.second("older")
	older.load(d)
	b.DB.Exec(t, "DELETE FROM {kinds} WHERE config>0")
	check("work", nil)
	d.Pools = d.Pools[:2]
	s.second("without").load(d)
	check("work", []string{}, ledger.Unrunnable{Tasks: 4})
	b.DB.Exec(t, "DELETE FROM {tasks}")
	check("work", []string{})
}

// waits checks what can be run in the pool work, and which tasks there no replica may claim.
func (s *scene) waits(when string, kinds []string, want ...string) {
	s.t.Helper()
	all, err := s.Store.PoolStatuses(s.ctx())
	must(s.t, err)
	for _, p := range all {
		var waiting []string
		for _, u := range p.Unrunnable {
			waiting = append(waiting, u.Kind)
		}
		if p.Name == "work" && (!slices.Equal(p.Kinds, kinds) || (p.Kinds == nil) != (kinds == nil) || !slices.Equal(waiting, want)) {
			s.t.Errorf("%s: %q can be run and %q wait for nobody, want %q and %q", when, p.Kinds, waiting, kinds, want)
		}
	}
}

// While the newest replica drains, what the others have together can be run.
func runBesideDraining(t *testing.T, b *Bench) {
	s := newScene(t, b)
	second, newest := s.second("two"), s.second("three")
	s.load(withKinds("fax", "mail"))
	second.load(withKinds("mail", "sms"))
	newest.load(withKinds("fax", "mail", "sms", "telex"))
	for _, kind := range []string{"fax", "mail", "sms", "telex"} {
		_, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: kind})
		must(t, err)
	}
	must(t, b.Store.SetDraining(s.ctx(), newest.session))
	s.waits("two older ones", []string{"fax", "mail", "sms"}, "telex")
	second.die()
	s.waits("an older one", []string{"fax", "mail"}, "sms", "telex")

	// A program that does not say what it has, with the same definitions, has no less.
	s.DB.Exec(t, "DELETE FROM {kinds} WHERE config=(SELECT config FROM {sessions} WHERE id=?)", s.session)
	s.waits("an older program", []string{"fax", "mail", "sms", "telex"})

	// Where none takes tasks, what governs holds.
	s.DB.Exec(t, "DELETE FROM {kinds} WHERE config>0")
	s.accepts(true, "work", "whatever")
	must(t, b.Store.SetDraining(s.ctx(), s.session))
	s.accepts(false, "work", "whatever")
}

// A pool without declared kinds runs any kind, also beside a replica that declares some, and while a definition
// governs without a live replica.
func runAny(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax"))
	open := s.second("two")
	open.load(definitions())
	_, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "whatever"})
	must(t, err)
	s.waits("beside one that says its kinds", nil)
	gone := s.second("three")
	gone.load(withKinds("mail"))
	s.waits("beside a newer one that says its kinds", []string{"mail"}, "whatever")
	gone.die()
	s.accepts(true, "work", "whatever")

	// The newest one drains, beside one with its definition, and one with another definition that came in between.
	other, newest := s.second("four"), s.second("five")
	other.load(withKinds("fax"))
	newest.load(definitions())
	must(t, b.Store.SetDraining(s.ctx(), newest.session))
	s.waits("while the newest one drains", nil)
}

// An older replica beside a newer one gets the definition that governs the pool, claims the kinds that it has in the same way, and
// counts as one that can run those.
func claimBeside(t *testing.T, b *Bench) {
	s := newScene(t, b)
	own := withKinds("fax", "mail", "telex")
	s.load(own)
	newer := s.second("two")
	edited := withKinds("fax", "mail", "sms")
	edited.Pools[2].Kinds["fax"], edited.Pools[2].MaxRunning = "2", 7
	newer.load(edited)
	others := func(want ...ledger.OtherPool) {
		t.Helper()
		got, err := s.Store.Assert(s.ctx(), s.session, own)
		must(t, err)
		if d := cmp.Diff(ledger.Assertion{Pools: want}, got); d != "" {
			t.Errorf("the older one is told: %s", d)
		}
	}
	governing := ledger.OtherPool{
		Name: "work", Hash: edited.Pools[2].Hash, MaxRunning: 7, Kinds: map[string]string{"fax": "2", "mail": "1", "sms": "1"},
	}
	others(governing)

	force := func(kinds ...string) {
		t.Helper()
		for _, kind := range kinds {
			_, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: kind, Force: true})
			must(t, err)
		}
	}
	force("fax", "mail", "sms", "telex")
	if _, err := s.claimUnder(own, 9); !errors.Is(err, ledger.ErrOutdated) {
		t.Errorf("by its own definition: %v", err)
	}
	c := s.claiming("work", 9)
	share(&c, func(s *ledger.Share) { s.Hash, s.Limited = governing.Hash, governing.MaxRunning > 0 })
	c.Scope.Kinds = []string{"mail"}
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(t, err)
	if len(got.Tasks) != 1 || got.Tasks[0].Kind != "mail" || got.More {
		t.Errorf("by the newer one: %+v", got)
	}
	s.finish(result(got.Tasks[0], ledger.Ended, jobs.StateSucceeded))

	s.waits("both take tasks", []string{"fax", "mail", "sms"}, "telex")
	s.accepts(false, "work", "telex")
	must(t, b.Store.SetDraining(s.ctx(), newer.session))
	s.waits("the newer one drains", []string{"mail"}, "fax", "sms", "telex")
	newer.die()
	s.waits("the older one is about to govern", []string{"fax", "mail", "telex"}, "sms")
	s.accepts(true, "work", "telex")
	got2, err := s.Store.Assert(s.ctx(), s.session, own)
	must(t, err)
	if !got2.Governs {
		t.Errorf("it governs again: %+v", got2)
	}
	force("mail")
	if claimed, err := s.claimUnder(own, 9); err != nil || len(claimed) < 3 {
		t.Errorf("by its own definition again: %v, %v", ids(claimed), err)
	}

	// A program without kinds defines the pool: the kinds that are kept are stale.
	third := s.second("three")
	third.load(withKinds("mail"))
	s.DB.Exec(t, "DELETE FROM {kinds} WHERE config=(SELECT config FROM {sessions} WHERE id=?)", third.session)
	s.DB.Exec(t, "UPDATE {pools} SET hash='of an older program', max_running=3 WHERE name='work'")
	others(ledger.OtherPool{Name: "work", Hash: "of an older program", MaxRunning: 3})
	s.accepts(true, "work", "whatever")

	// One that lacks the pool retires it.
	fourth := s.second("four")
	d := definitions()
	d.Pools = d.Pools[:2]
	fourth.load(d)
	others(ledger.OtherPool{Name: "work"})
	for _, hash := range []string{"", own.Pools[2].Hash} {
		c := s.claiming("work", 9)
		share(&c, func(s *ledger.Share) { s.Hash = hash })
		if _, err := tasksOf(s.Store.Claim(s.ctx(), c)); !errors.Is(err, ledger.ErrOutdated) {
			t.Errorf("of a retired pool, with hash %q: %v", hash, err)
		}
	}

	// No replica is live, and what governed last was of an older program.
	fourth.load(withKinds("fax"))
	s.DB.Exec(t, "UPDATE {pools} SET hash='of an older program' WHERE name='work'")
	for _, r := range []*scene{s, third, fourth} {
		r.die()
	}
	s.accepts(true, "work", "whatever")
}
