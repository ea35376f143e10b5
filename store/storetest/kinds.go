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

// load gives the replica a configuration, which is the newest then.
func (s *scene) load(d ledger.Definitions) {
	s.t.Helper()
	d.Activate = true
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
	_, err = b.Store.Retry(s.ctx(), id, "", false)
	if refused, ok := errors.AsType[*jobs.KindError](err); !ok || refused.Pool != "work" || refused.Kind != "fax" || !slices.Equal(refused.Kinds, []string{"mail"}) {
		t.Errorf("of a kind that is gone: %v", err)
	}
	s.wantEmpty("tasks")
	forced, err := b.Store.Retry(s.ctx(), id, "", true)
	must(t, err)
	if forced.Kind != "fax" || forced.State != jobs.StatePending {
		t.Errorf("forced: %+v", forced)
	}
	d := withKinds()
	d.Pools = d.Pools[:2]
	s.load(d)
	if _, err := b.Store.Retry(s.ctx(), id, "", false); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("in a pool that is gone: %v", err)
	} else if _, is := sqlOf(b.Store); is && !strings.Contains(err.Error(), "use force") {
		t.Errorf("what to do about a pool that is gone is not said: %v", err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks}")
	_, err = b.Store.Retry(s.ctx(), id, "", true)
	must(t, err)
	s.load(withKinds("fax", "mail"))
	_, err = b.Store.Retry(s.ctx(), id, "", false)
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
		all, err := b.Store.Pools(s.ctx())
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
			t.Errorf("%s, tasks of the kinds %q cannot run", when, kinds)
		}
	}
	waits("beside a replica that has another pool")
	s.join("late")
	waits("beside one that has not loaded")
}
