package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Due tasks that no replica may claim are reported by pool and kind.
func waitForNobody(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax", "mail"))
	check := func(pool string, kinds []string, want ...ledger.Unrunnable) {
		t.Helper()
		all, err := b.Store.Pools(s.ctx())
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
	all, err := s.Store.Pools(s.ctx())
	must(s.t, err)
	for _, p := range all {
		var waiting []string
		for _, u := range p.Unrunnable {
			waiting = append(waiting, u.Kind)
		}
		if p.Name == "work" && (!slices.Equal(p.Kinds, kinds) || (p.Kinds == nil) != (kinds == nil) || !slices.Equal(waiting, want)) {
			s.t.Errorf("%s: %q can be run and %q cannot, want %q and %q", when, p.Kinds, waiting, kinds, want)
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
	edited.Pools[2].Kinds["fax"], edited.Pools[2].MaxRunning, edited.Pools[2].Rate = "2", 7, jobs.Rate{Count: 1000, Per: time.Second}
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
		Name: "work", Hash: edited.Pools[2].Hash, MaxRunning: 7, Rate: edited.Pools[2].Rate, Kinds: map[string]string{"fax": "2", "mail": "1", "sms": "1"},
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
