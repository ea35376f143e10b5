package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Limits by key or by kind cost a claim one statement, and a rate by key or an order two, while nothing waits. The end of tasks with keys costs one,
// whatever the pool is. What waits, and what is looked at, costs more, however many tasks and keys they are.
func TestStatementsOfKeys(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) { statementsOfKeys(t, d) })
	}
}

func statementsOfKeys(t *testing.T, d store.Dialect) {
	s, _, r := recordedStore(t, d)
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
	check(err)
	rate := jobs.Rate{Count: 10, Per: time.Second} // so slow that a bucket is not full again when it is written
	of := map[string]ledger.PoolDef{
		"fair": {Fair: &jobs.Fair{}}, "full": {PerKey: jobs.KeyLimits{MaxRunning: 1}}, "keyed": {PerKey: jobs.KeyLimits{MaxRunning: 9}},
		"keyrated": {PerKey: jobs.KeyLimits{MaxRunning: 9, Rate: rate}}, "kinds": {PerKind: map[string]jobs.KindLimits{"k": {MaxRunning: 9}}},
		"bounded": {MaxRunning: 99, Rate: rate, PerKey: jobs.KeyLimits{MaxRunning: 9, Rate: rate}}, "rated": {PerKey: jobs.KeyLimits{Rate: rate}},
		"ordered": {Order: jobs.OrderKey}, "plain": {},
	}
	var defs ledger.Definitions
	for name, def := range of {
		def.Name, def.Hash, def.MaxAttempts = name, "h", 1
		defs.Pools = append(defs.Pools, def)
	}
	slices.SortFunc(defs.Pools, func(a, b ledger.PoolDef) int { return strings.Compare(a.Name, b.Name) })
	_, err = s.Sides().Replica.Load(ctx, session, defs)
	check(err)
	joined := false // the last call has read rows of keys with tasks
	sent := func() int {
		all := slices.DeleteFunc(r.take(), func(c call) bool { return strings.HasPrefix(c.text, "SET TRANSACTION") }) // not with Open
		joined = slices.ContainsFunc(all, func(c call) bool { return strings.Contains(c.text, "LEFT JOIN lockstep_keys k") })
		return len(all)
	}
	enqueue := func(pool string, keys ...string) {
		t.Helper()
		var batch []jobs.NewTask
		for _, key := range keys {
			batch = append(batch, jobs.NewTask{Pool: pool, Key: key})
		}
		_, err := s.Enqueue(ctx, batch...)
		check(err)
	}
	claim := func(pool string, want int) (statements int, ends []ledger.Result) {
		t.Helper()
		r.take()
		got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{pool: {Hash: "h", Limited: pool != "plain", Room: 50}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
				Locks: lockless,
			},
			Pool: pool, ID: newID(), Now: func(now time.Time) (time.Time, error) { return now, nil },
		})
		statements = sent()
		if check(err); len(got.Tasks) != want {
			t.Errorf("claimed %d of %s, want %d", len(got.Tasks), pool, want)
		}
		for _, k := range got.Tasks {
			ends = append(ends, ledger.Result{TaskID: k.ID, Token: k.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Task: k.Task})
		}
		return statements, ends
	}
	finish := func(ends []ledger.Result) int {
		t.Helper()
		r.take()
		_, err := s.Sides().Replica.Finish(ctx, session, ends)
		check(err)
		return sent()
	}
	enqueue("plain", "", "", "")
	claims, ends := claim("plain", 3)
	finishes := finish(ends)
	read := map[store.Dialect]int{store.SQLite: 1, store.MySQL: 0}[d] // the pools of tasks with keys
	for _, c := range []struct {
		pool              string
		claimed, finished int // more statements
		joins             bool
	}{
		{"plain", 0, 0, false}, {"keyed", 1, 0, false}, {"keyrated", 2, 0, false}, {"keyrated", 2, 0, true}, {"rated", 2, 0, false}, {"bounded", 3, 0, false},
		{"ordered", 1, 1, true}, {"fair", 0, 0, true},
	} {
		enqueue(c.pool, "a", "b", "c")
		n, ends := claim(c.pool, 3)
		if joined != c.joins {
			t.Errorf("%s: the claim reads rows of keys with its tasks: %t", c.pool, joined)
		}
		if n != claims+c.claimed {
			t.Errorf("%s: a claim sends %d statements, want %d and %d more", c.pool, n, claims, c.claimed)
		}
		if n := finish(ends); n != finishes+read+c.finished {
			t.Errorf("%s: a finish sends %d statements, want %d and %d more", c.pool, n, finishes, read+c.finished)
		}
	}
	for _, c := range []struct {
		pool              string
		told              bool
		claimed, finished int
	}{{"plain", false, 0, 0}, {"kinds", true, 1, read}, {"kinds", false, 1, 0}} {
		_, err := s.Enqueue(ctx, jobs.NewTask{Pool: c.pool, Kind: "k"}, jobs.NewTask{Pool: c.pool, Kind: "k"})
		check(err)
		n, ends := claim(c.pool, 2)
		if n != claims+c.claimed {
			t.Errorf("%s: a claim of a kind sends %d statements, want %d and %d more", c.pool, n, claims, c.claimed)
		}
		for i := range ends {
			ends[i].KindLimited = c.told
		}
		if n := finish(ends); n != finishes+c.finished {
			t.Errorf("%s: a finish of a kind sends %d statements, want %d and %d more", c.pool, n, finishes, c.finished)
		}
	}
	var few, many []string
	for i := range 3 {
		few = append(few, fmt.Sprint("few ", i), fmt.Sprint("few ", i))
	}
	for i := range 20 {
		many = append(many, fmt.Sprint("many ", i), fmt.Sprint("many ", i))
	}
	type counts struct{ behind, ends, freed int }
	var seen []counts
	for _, keys := range [][]string{few, many} {
		enqueue("full", keys...)
		var c counts
		var ends []ledger.Result
		c.behind, ends = claim("full", len(keys)/2)
		c.ends = finish(ends)
		c.freed, ends = claim("full", len(keys)/2)
		finish(ends)
		claim("full", 0) // looks at keys for which no task waits any more
		seen = append(seen, c)
	}
	if seen[0] != seen[1] || seen[0] != (counts{claims + 4, finishes + read + 2, claims + 5}) {
		t.Errorf("while tasks wait %+v statements, of many keys %+v; a claim without limits sends %d, a finish %d", seen[0], seen[1], claims, finishes)
	}
	t.Logf("%d and %d without limits; %+v", claims, finishes, seen[0])
}

// Of the tasks that a claim looks at, it reads the long payloads of those alone that start.
func TestPayloadsOfWhatStarts(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			s, _, r := recordedStore(t, d)
			ctx := t.Context()
			session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
			if err != nil {
				t.Fatal(err)
			}
			pool := ledger.PoolDef{Name: "p", Hash: "h", MaxAttempts: 1, PerKey: jobs.KeyLimits{MaxRunning: 1}}
			if _, err := s.Sides().Replica.Load(ctx, session, ledger.Definitions{Pools: []ledger.PoolDef{pool}}); err != nil {
				t.Fatal(err)
			}
			long := strings.Repeat("x", 5000)
			for range 3 {
				if _, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p", Key: "a", Payload: long}); err != nil {
					t.Fatal(err)
				}
			}
			r.take()
			got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{
				Admission: ledger.Admission{
					Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "h", Limited: true, Room: 3}},
					Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true }, Locks: lockless,
				},
				Pool: "p", ID: newID(), Now: func(now time.Time) (time.Time, error) { return now, nil },
			})
			if err != nil || len(got.Tasks) != 1 || len(got.Tasks[0].Payload) != len(long)+2 {
				t.Fatalf("claimed %+v: %v", got.Tasks, err)
			}
			reads := 0
			for _, c := range r.take() {
				switch {
				case strings.HasPrefix(c.text, "SELECT id, payload FROM"):
					if reads++; len(c.args) != 1 {
						t.Errorf("the payloads of %d tasks are read", len(c.args))
					}
				case strings.HasPrefix(c.text, "SELECT t.id"):
					if !strings.Contains(c.text, "CASE WHEN t.job<>'' OR LENGTH(t.payload)<=1024 THEN t.payload") {
						t.Errorf("all payloads are read: %.200s", c.text)
					}
				}
			}
			if reads != 1 {
				t.Errorf("%d statements read payloads", reads)
			}
		})
	}
}
