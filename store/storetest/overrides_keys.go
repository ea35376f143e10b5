package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// overrideKeyCases are about limits by key and by kind that are set while tasks run and wait.
var overrideKeyCases = []Case{
	{"OverridesByKey/MaxRunning", overrideKeyMaxRunning},
	{"OverridesByKey/Rate", overrideKeyRate},
	{"OverridesByKey/Reset", overrideKeyReset},
	{"OverridesByKey/Many", overrideKeyMany},
	{"OverridesByKey/Kind", overrideKind},
	{"OverridesByKey/KindUntold", overrideKindUntold},
	{"OverridesByKey/KindOfFile", overrideKindOfFile},
	{"OverridesByKey/Weights", overrideWeights},
	{"OverridesByKey/Order", overrideOrder},
	{"OverridesByKey/Fields", overrideKeyFields},
	{"OverridesByKey/Refused", overrideKeyRefused},
	{"OverridesByKey/Aside", overrideAside},
	{"OverridesByKey/KeysTogether", overrideKeysTogether},
	{"OverridesByKey/KindsTogether", overrideKindsTogether},
}

type fields = wire.LimitFields

func perKeyOf(most int) *wire.PoolLimits {
	return &wire.PoolLimits{PerKey: &fields{MaxRunning: &most}}
}

func perKindOf(kind string, l fields) *wire.PoolLimits {
	return &wire.PoolLimits{PerKind: map[string]fields{kind: l}}
}

// set is override, and wants the pool to have work: what waited may start from now on, and a replica finds it with its next poll.
func (s *scene) set(when string, o *wire.PoolLimits) {
	s.t.Helper()
	s.override("work", o)
	s.ready(when, "work")
}

// unaware claims what pool work has, as a replica that knows of no limits, and wants these tasks.
func (s *scene) unaware(when string, want ...string) {
	s.t.Helper()
	if d := cmp.Diff(want, ids(s.claimUnaware("work", 20).Tasks)); d != "" {
		s.t.Errorf("%s: %s", when, d)
	}
}

// settled wants nothing to be left of keys: neither what waits, nor that claims look for it.
func (s *scene) settled(when string) {
	s.t.Helper()
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
	s.wantInt(0, "SELECT COUNT(*) FROM {pools} WHERE keys_left<>0")
	s.ready(when)
}

// A limit by key, in a pool without one, is added while tasks run, raised, lowered, and removed while others wait. What runs goes on, and counts.
// A replica that knows of no limits goes by them from its next claim on.
func overrideKeyMaxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	k := s.keyed("a", "a", "a")
	s.unaware("without limits", k...)
	k = append(k, s.keyed("a", "a", "a", "a", "b", "b", "b")...)
	s.set("it is added", perKeyOf(2))
	s.unaware("it is added", k[7], k[8])
	s.waitsForKey(k[3], "as many tasks with this key run as may at once: 2")
	s.idle("it is full")
	s.ends(k[0], k[1])
	s.starts("one still runs", k[3])
	s.idle("two run")
	s.set("it is raised", perKeyOf(3))
	s.starts("it is raised", k[4], k[9])
	s.idle("three run")
	s.override("work", perKeyOf(1))
	s.starts("it is lowered")
	s.ends(k[2], k[3], k[7], k[8], k[9])
	s.starts("one still runs")
	s.idle("one runs")
	s.set("it is removed", perKeyOf(0))
	s.unaware("it is removed", k[5], k[6])
	s.settled("it is removed")
	more := s.keyed("a", "a", "b")
	s.unaware("there is none", more...)
}

// What the rate of a key has started counts under the next one, and without a rate all start.
func overrideKeyRate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	rate := func(n int, per time.Duration, burst int) *wire.PoolLimits {
		return &wire.PoolLimits{PerKey: &fields{Rate: &jobs.Rate{Count: n, Per: per}, Burst: &burst}}
	}
	k := s.keyed("a", "a", "a", "a", "b", "a", "a", "a")
	s.set("it is added", rate(1, time.Hour, 2))
	s.unaware("a burst", k[0], k[1], k[4])
	s.waitsForKey(k[2], "the rate for tasks with this key, 1/h")
	s.idle("the bucket is empty")
	s.ends(k[0], k[1])
	s.starts("ends are no starts")
	s.override("work", rate(1, time.Minute, 2))
	s.starts("the bucket is empty")
	s.passKeys(61 * time.Second)
	s.starts("a minute later", k[2])
	s.set("a larger burst", rate(1, time.Minute, 3))
	s.starts("one more", k[3])
	s.override("work", rate(1, 24*time.Hour, 3))
	s.passKeys(time.Hour)
	s.starts("an hour later")
	s.set("it is removed", &wire.PoolLimits{PerKey: &fields{Rate: new(jobs.Rate)}})
	s.unaware("it is removed", k[5], k[6], k[7])
	s.settled("it is removed")
}

// A reset, of the field or of all, lets the definition hold again, in a pool with a limit by key and in one without.
func overrideKeyReset(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for what, reset := range map[string]*wire.PoolLimits{"all": nil, "per_key": {Reset: []string{"per_key"}}, "the field": {Reset: []string{"per_key.max_running"}}} {
		s.perKey(jobs.KeyLimits{MaxRunning: 3}, "")
		k := s.keyed("a", "a", "a", "a", "a")
		s.set(what, perKeyOf(1))
		s.starts(what+": one may", k[0])
		s.set(what, reset)
		s.starts(what+": the definition holds", k[1], k[2])
		s.ends(k[0], k[1], k[2])
		s.starts(what+": and goes on", k[3], k[4])
		s.ends(k[3], k[4])

		s.perKey(jobs.KeyLimits{}, "")
		k = s.keyed("a", "a", "a")
		s.set(what, perKeyOf(1))
		s.starts(what+": one may", k[0])
		s.set(what, reset)
		s.unaware(what+": the definition has no limits", k[1], k[2])
		s.settled(what)
		s.ends(k...)
	}
}

// Many tasks that wait for many keys all start after their limit was removed, whatever room claims have, and no claim looks for them after that.
func overrideKeyMany(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.override("work", perKeyOf(1))
	var first, rest []jobs.NewTask
	for i := range 150 {
		first = append(first, jobs.NewTask{Pool: "work", Key: fmt.Sprint(i)})
		rest = append(rest, jobs.NewTask{Pool: "work", Key: fmt.Sprint(i)}, jobs.NewTask{Pool: "work", Key: fmt.Sprint(i)})
	}
	for _, all := range [][]jobs.NewTask{first, rest} {
		_, err := b.Store.Enqueue(s.ctx(), all...)
		must(t, err)
	}
	for range 10 {
		s.limitedClaim("work", 200)
	}
	s.wantInt(150, "SELECT COUNT(*) FROM {tasks} WHERE state=2")
	s.set("it is removed", perKeyOf(0))
	started := 0
	for claims := 0; started < 300; claims++ {
		got := s.claimUnaware("work", 40)
		if started += len(got.Tasks); claims > 40 {
			t.Fatalf("%d claims have started %d of 300", claims, started)
		}
	}
	for range 3 {
		s.claimUnaware("work", 40)
	}
	s.settled("all run")
}

// Weights hold from the next claim on, and a reset gives those of the file back.
func overrideWeights(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", map[string]int{"a": 3})
	for _, key := range []string{"a", "b", "c"} {
		s.many(key, 200)
	}
	s.runs(4, 5) // they have all joined
	for _, c := range []struct {
		when    string
		o       *wire.PoolLimits
		a, b, c int
	}{
		{"of the file", nil, 30, 10, 10},
		{"two of them", &wire.PoolLimits{Fair: &wire.Fair{Weights: map[string]int{"a": 1, "b": 3}}}, 10, 30, 10},
		{"the third, too", &wire.PoolLimits{Fair: &wire.Fair{Weights: map[string]int{"c": 6}}}, 5, 15, 30},
		{"a reset of one", &wire.PoolLimits{Reset: []string{"fair.weights.c"}}, 10, 30, 10},
		{"of the file again", &wire.PoolLimits{Reset: []string{"fair"}}, 30, 10, 10},
	} {
		s.set(c.when, c.o)
		got := s.runs(10, 5)
		for key, want := range map[string]int{"a": c.a, "b": c.b, "c": c.c} {
			s.near(c.when+", "+key, got[key], want, 3)
		}
	}
}

// With order: key a rate of the keys may be set. What waits keeps its place.
func overrideOrder(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	k := s.keyed("a", "a", "a")
	s.starts("the first", k[0])
	s.override("work", &wire.PoolLimits{PerKey: &fields{MaxRunning: new(1), Rate: &jobs.Rate{Count: 1, Per: time.Hour}}})
	s.ends(k[0])
	s.starts("the second", k[1])
	s.ends(k[1])
	s.starts("the rate lets none start")
	s.set("no rate", &wire.PoolLimits{PerKey: &fields{Rate: new(jobs.Rate)}})
	s.starts("the third", k[2])
	s.override("work", nil)
	last := s.keyed("a")
	s.starts("the third runs")
	s.ends(k[2])
	s.starts("the last", last...)
}

// Limits by key and by kind that are set are exact, however many replicas claim, end and enqueue at the same time.
func overrideKeysTogether(t *testing.T, b *Bench) {
	overridesTogether(t, b, perKeyOf(2), func(k jobs.Task) string { return k.Key })
}

func overrideKindsTogether(t *testing.T, b *Bench) {
	o := &wire.PoolLimits{PerKind: map[string]fields{"0": {MaxRunning: new(2)}, "1": {MaxRunning: new(2)}}}
	overridesTogether(t, b, o, func(k jobs.Task) string { return k.Kind })
}

func overridesTogether(t *testing.T, b *Bench, o *wire.PoolLimits, by func(jobs.Task) string) {
	s := newScene(t, b)
	s.override("work", o)
	s.workTogether(&running{now: map[string][]string{}, by: by}, 2, func(n int) []jobs.NewTask {
		return []jobs.NewTask{{Key: fmt.Sprint(n % 2), Kind: fmt.Sprint(n % 2)}, {Key: "0", Kind: "0"}}
	})
	s.wantInt(80, "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}
