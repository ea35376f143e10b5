package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// shows checks what the view of pool work says of limits by key and kind.
func (s *scene) shows(when string, holds ledger.KeyRules, o *wire.PoolLimits, aside ...wire.LimitAside) {
	s.t.Helper()
	all, err := s.Store.Pools(s.ctx())
	must(s.t, err)
	for _, p := range all {
		if p.Name == "work" {
			got := ledger.PoolStatus{PerKey: p.PerKey, PerKind: p.PerKind, Order: p.Order, Fair: p.Fair, Override: p.Override, Aside: p.Aside}
			want := ledger.PoolStatus{PerKey: holds.PerKey, PerKind: holds.PerKind, Order: holds.Order, Fair: holds.Fair, Override: o, Aside: aside}
			if d := cmp.Diff(want, got); d != "" {
				s.t.Errorf("%s: %s", when, d)
			}
		}
	}
}

// What is set is merged field by field, and shown beside what holds; each field can be reset.
func overrideKeyFields(t *testing.T, b *Bench) {
	s := newScene(t, b)
	hourly := jobs.Rate{Count: 1, Per: time.Hour}
	s.perKind(perKind{"mail": {MaxRunning: 4, Burst: 5}}, jobs.KeyLimits{Rate: hourly, Burst: 6}, nil)
	mail := func(l jobs.KindLimits) perKind { return perKind{"mail": l} }
	of := func(key jobs.KeyLimits, kinds perKind) ledger.KeyRules {
		return ledger.KeyRules{PerKey: key, PerKind: kinds}
	}
	file := of(jobs.KeyLimits{Rate: hourly, Burst: 6}, mail(jobs.KindLimits{MaxRunning: 4, Burst: 5}))
	s.shows("the file", file, nil)
	s.override("work", &wire.PoolLimits{PerKey: &fields{MaxRunning: new(2)}, PerKind: map[string]fields{"mail": {Rate: &hourly}}})
	s.shows("some", of(jobs.KeyLimits{MaxRunning: 2, Rate: hourly, Burst: 6}, mail(jobs.KindLimits{MaxRunning: 4, Rate: hourly, Burst: 5})),
		&wire.PoolLimits{PerKey: &fields{MaxRunning: new(2)}, PerKind: map[string]fields{"mail": {Rate: &hourly}}})
	s.override("work", &wire.PoolLimits{MaxRunning: new(9), PerKey: &fields{Burst: new(7)}, PerKind: map[string]fields{"mail": {MaxRunning: new(0)}, "x.rate": {Burst: new(8)}}})
	s.shows("more", of(jobs.KeyLimits{MaxRunning: 2, Rate: hourly, Burst: 7}, perKind{"mail": {Rate: hourly, Burst: 5}, "x.rate": {Burst: 8}}),
		&wire.PoolLimits{MaxRunning: new(9), PerKey: &fields{MaxRunning: new(2), Burst: new(7)}, PerKind: map[string]fields{"mail": {MaxRunning: new(0), Rate: &hourly}, "x.rate": {Burst: new(8)}}})
	s.override("work", &wire.PoolLimits{Reset: []string{"per_key.max_running", "per_kind.mail.max_running", "per_kind.x.rate", "per_kind.no.rate", "fair", "rate"}})
	s.shows("some were reset", of(jobs.KeyLimits{Rate: hourly, Burst: 7}, mail(jobs.KindLimits{MaxRunning: 4, Rate: hourly, Burst: 5})),
		&wire.PoolLimits{MaxRunning: new(9), PerKey: &fields{Burst: new(7)}, PerKind: map[string]fields{"mail": {Rate: &hourly}}})
	s.override("work", &wire.PoolLimits{Reset: []string{"per_key", "per_kind.mail.rate"}, PerKey: &fields{MaxRunning: new(3)}})
	s.shows("reset, and set", of(jobs.KeyLimits{MaxRunning: 3, Rate: hourly, Burst: 6}, file.PerKind), &wire.PoolLimits{MaxRunning: new(9), PerKey: &fields{MaxRunning: new(3)}})
	s.limits("work", ledger.Limits{MaxRunning: 9}, &wire.PoolLimits{MaxRunning: new(9), PerKey: &fields{MaxRunning: new(3)}}, "ann")
	s.override("work", &wire.PoolLimits{Reset: []string{"max_running", "per_key.max_running", "burst"}})
	s.shows("all were reset", file, nil)
	s.limits("work", ledger.Limits{}, nil, "")
}

// What a configuration refuses is refused in its words, and sets nothing.
func overrideKeyRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	refused := func(what string, o *wire.PoolLimits, field, problem string) {
		t.Helper()
		o.MaxRunning = new(7)
		err := b.Store.LimitPool(s.ctx(), "work", "ann", o)
		wrong, is := errors.AsType[*jobs.FieldError](err)
		if !is || wrong.Path != field || wrong.Problem != problem {
			t.Errorf("%s: %v", what, err)
		}
		s.limits("work", ledger.Limits{}, nil, "")
	}
	mail, weights := perKindOf("mail", fields{MaxRunning: new(1)}), &wire.PoolLimits{Fair: &wire.Fair{Weights: map[string]int{"a": 2}}}
	refused("not fair", weights, "fair.weights", "the keys of the pool do not share it; write fair into its definition first")
	refused("no kind", perKindOf("", fields{MaxRunning: new(1)}), "per_kind.", "is missing")
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	refused("with an order", perKeyOf(2), "per_key.max_running", "with order: key the tasks of one key run one after the other; remove it, or write order: none")
	refused("with an order", mail, "per_kind", "does not go with order: key, where a task that its kind holds up would hold up its key; remove one of them")
	s.shared(jobs.KeyLimits{}, "", nil)
	refused("fair", mail, "per_kind", "does not go with fair, as the tasks that wait for a kind start in the order of their priority and due time, whatever their keys; remove one of them")
	d := definitions()
	d.Pools[2].Kinds = map[string]string{"mail": "1", "sms": "2", "": "3"}
	_, err := b.Store.Assert(s.ctx(), s.session, d)
	must(t, err)
	refused("another kind", perKindOf("push", fields{MaxRunning: new(1)}), "per_kind.push", `the pool has no kind "push"; name one of its kinds: mail, sms`)
	refused("no kind", perKindOf("", fields{MaxRunning: new(1)}), "per_kind.", `the pool has no kind ""; name one of its kinds: mail, sms`)
	must(t, b.Store.LimitPool(s.ctx(), "work", "ann", mail))
}

// What a new definition does not go with is set aside, is shown with the reason, and holds again under the next one. Nothing waits for it meanwhile.
func overrideAside(t *testing.T, b *Bench) {
	s := newScene(t, b)
	own := jobs.KeyLimits{Rate: jobs.Rate{Count: 90, Per: time.Second}}
	o := &wire.PoolLimits{PerKey: &fields{MaxRunning: new(2), Burst: new(40)}, PerKind: map[string]fields{"mail": {MaxRunning: new(1)}}}
	s.override("work", o)
	task := func(kind, key string) string { return s.newTask(jobs.NewTask{Kind: kind, Key: key}) }
	m1, m2, m3, a1, a2, a3 := task("mail", "x"), task("mail", "y"), task("mail", "z"), task("", "a"), task("", "a"), task("", "a")
	s.starts("both hold", m1, a1, a2)
	s.waitsFor(m2, reason.WaitsForKind, "kind mail")
	s.waitsForKey(a3, "run as may at once: 2")

	s.perKey(own, jobs.OrderKey)
	kinds := wire.LimitAside{Field: "per_kind", Why: "does not go with order: key, where a task that its kind holds up would hold up its key; remove one of them"}
	s.shows("with an order", ledger.KeyRules{PerKey: jobs.KeyLimits{Rate: own.Rate, Burst: 40}, Order: jobs.OrderKey}, o,
		wire.LimitAside{Field: "per_key.max_running", Why: "with order: key the tasks of one key run one after the other; remove it, or write order: none"}, kinds)
	s.starts("kinds have no limits, and keys an order", m2, m3)
	s.ends(a1, a2)
	s.starts("the next with the key", a3)

	s.shared(own, "", map[string]int{"b": 2})
	s.override("work", &wire.PoolLimits{Fair: &wire.Fair{Weights: map[string]int{"a": 5}}})
	o.Fair = &wire.Fair{Weights: map[string]int{"a": 5}}
	kinds.Why = "does not go with fair, as the tasks that wait for a kind start in the order of their priority and due time, whatever their keys; remove one of them"
	s.shows("shared", ledger.KeyRules{PerKey: jobs.KeyLimits{MaxRunning: 2, Rate: own.Rate, Burst: 40}, Fair: &jobs.Fair{Weights: map[string]int{"a": 5, "b": 2}}}, o, kinds)

	s.perKey(own, "")
	s.shows("neither", ledger.KeyRules{PerKey: jobs.KeyLimits{MaxRunning: 2, Rate: own.Rate, Burst: 40}, PerKind: perKind{"mail": {MaxRunning: 1}}}, o,
		wire.LimitAside{Field: "fair", Why: "the keys of the pool do not share it; write fair into its definition first"})
	m4 := task("mail", "z")
	s.starts("three of the kind run")
	s.waitsFor(m4, reason.WaitsForKind, "kind mail")
	s.ends(m1, m2, m3)
	s.starts("the kind is free", m4)
}
