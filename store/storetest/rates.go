package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var rateCases = []Case{
	{"Rates/Burst", rateBurst},
	{"Rates/Refused", rateRefused},
	{"Rates/Paused", ratePaused},
	{"Rates/Waiting", rateWaiting},
	{"Rates/BesideMaxRunning", rateBesideMaxRunning},
	{"Rates/Together", rateTogether},
	{"Rates/UnderTheLock", rateUnderTheLock},
	{"Rates/Decide", rateDecides},
	{"Rates/Compete", rateCompetes},
	{"Rates/Ready", readyLimits},
	{"Rates/FarBucket", farBucket},
	{"Rates/Definitions", rateDefinitions},
}

// rate gives a pool a rate and a full bucket.
func (s *scene) rate(pool, rate string, burst int) {
	s.t.Helper()
	s.DB.Exec(s.t, "UPDATE {pools} SET rate=?, burst=?, bucket_full_at=0 WHERE name=?", rate, burst, pool)
}

// limitedClaim is a claim of a replica that knows of the pool's limits.
func (s *scene) limitedClaim(pool string, room int) claimed {
	s.t.Helper()
	c := s.claiming(pool, room)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(s.t, err)
	return got
}

// fullAt is when the pool's bucket is full again, by its row.
func (s *scene) fullAt(pool string) time.Time {
	s.t.Helper()
	return time.Unix(0, s.DB.Int(s.t, "SELECT bucket_full_at FROM {pools} WHERE name=?", pool))
}

// pass makes the pool's bucket that which it is after a while.
func (s *scene) pass(pool string, while time.Duration) {
	s.t.Helper()
	s.DB.Exec(s.t, "UPDATE {pools} SET bucket_full_at=bucket_full_at-? WHERE name=?", int64(while), pool)
}

// none checks that a pool with limits has no room now.
func (s *scene) none(when string, got claimed) {
	s.t.Helper()
	if len(got.Tasks) > 0 || !got.Full || !got.Limited {
		s.t.Errorf("%s: claimed %d, full %v, limited %v", when, len(got.Tasks), got.Full, got.Limited)
	}
}

// ready are the pools that are worth a claim.
func (s *scene) ready(when string, want ...string) {
	s.t.Helper()
	got, err := s.Store.Ready(s.ctx(), asIs)
	must(s.t, err)
	if !slices.Equal(got.Pools, want) {
		s.t.Errorf("%s: pools %q are ready, want %q", when, got.Pools, want)
	}
}

// The burst starts at once, then nothing, and one more task after each interval, whichever replica asks: the bucket is in the row. A
// task that is handed back has started all the same. OpensIn is the time until the next one may start.
func rateBurst(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.rate("work", "1/m", 3)
	made := s.enqueue("work", 7)
	claim := func(by *scene, want ...string) {
		t.Helper()
		began := time.Now()
		got := by.limitedClaim("work", 9)
		took := time.Since(began) + time.Microsecond
		if d := cmp.Diff(want, ids(got.Tasks)); d != "" || got.Full != (len(want) == 0) || !got.Limited || got.Left != 0 {
			t.Errorf("full %v, limited %v, %d left: %s", got.Full, got.Limited, got.Left, d)
		}
		opens := s.fullAt("work").Add(-2 * time.Minute).Sub(got.Now) // at the latest, as the bucket was read after that
		if got.OpensIn <= 0 || got.OpensIn > time.Minute || got.OpensIn > opens || got.OpensIn < opens-took {
			t.Errorf("it opens in %v, want %v or up to %v less", got.OpensIn, opens, took)
		}
	}
	claim(s, made[:3]...)
	claim(s)
	claim(other)
	s.wantInt(4, "SELECT COUNT(*) FROM {tasks} WHERE state=0")
	for _, id := range made[:3] {
		s.finish(ledger.Result{TaskID: id, Token: 1, Verdict: ledger.HandBack})
	}
	s.wantInt(7, "SELECT COUNT(*) FROM {tasks} WHERE state=0")
	claim(s)
	s.pass("work", time.Minute)
	claim(other, made[0])
	claim(s)
	s.pass("work", 2*time.Minute)
	claim(s, made[1:3]...)
	s.pass("work", time.Hour)
	claim(other, made[3:6]...)
	claim(s)
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE state=0")
}

// What does not start takes nothing from the bucket.
func rateRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.rate("work", "1/m", 3)
	if got := s.limitedClaim("work", 9); len(got.Tasks) > 0 || got.Full || !got.Limited || got.Left != 3 || got.OpensIn != 0 {
		t.Errorf("of an empty pool: %+v", got)
	}
	made := s.enqueue("work", 4)
	for _, change := range []func(*ledger.Claim){
		func(c *ledger.Claim) {
			c.Admit = func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, false }
		},
		func(c *ledger.Claim) { c.Locks = func(ledger.Candidate) ledger.Locking { return wants("user/a") } },
	} {
		c := s.claiming("work", 9)
		share(&c, func(s *ledger.Share) { s.Limited = true })
		change(&c)
		got, err := b.Store.Claim(s.ctx(), c)
		if must(t, err); len(got.Tasks) > 0 || got.Full || got.Left != 3 || got.OpensIn != 0 {
			t.Errorf("refused: %+v", got)
		}
	}
	s.wantInt(0, "SELECT bucket_full_at FROM {pools} WHERE name='work'")
	got := s.limitedClaim("work", 2)
	if d := cmp.Diff(made[:2], ids(got.Tasks)); d != "" || got.Left != 1 || got.OpensIn != 0 {
		t.Errorf("as many as the replica has room for, %d left, and one more in %v: %s", got.Left, got.OpensIn, d)
	}
	if d := cmp.Diff(made[2:3], ids(s.limitedClaim("work", 9).Tasks)); d != "" {
		t.Errorf("what is left in the bucket: %s", d)
	}
}

// A claim of a paused pool says nothing of its bucket, and takes nothing from it.
func ratePaused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.rate("work", "1/m", 1)
	made := s.enqueue("work", 2)
	must(t, b.Store.PausePool(s.ctx(), "work", "me", new(true)))
	for _, left := range [][]string{made[:1], nil} {
		for range 2 {
			got := s.limitedClaim("work", 9)
			if d := cmp.Diff(ledger.Claimed{Now: got.Now, Paused: true, Limited: true}, got.Claimed); d != "" {
				t.Error(d)
			}
		}
		s.ready("paused")
		must(t, b.Store.PausePool(s.ctx(), "work", "me", nil))
		if d := cmp.Diff(left, ids(s.limitedClaim("work", 9).Tasks)); d != "" {
			t.Error(d)
		}
		must(t, b.Store.PausePool(s.ctx(), "work", "me", new(true)))
	}
}

// A task whose locks have come starts by the rate, too. If the rate lets none start, it waits for its turn as all tasks do.
func rateWaiting(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.rate("work", "1/m", 1)
	made := s.enqueue("work", 2)
	s.locking("work", map[string]ledger.Locking{made[0]: busy("user/a")})
	s.locking("work", map[string]ledger.Locking{made[1]: busy("user/b")})
	claim := func(id string) claimed {
		t.Helper()
		return claimed{Claimed: s.lockingWith("work", nil, func(c *ledger.Claim) {
			share(c, func(s *ledger.Share) { s.Limited = true })
			c.Waiting = []string{id}
		})}
	}
	if got := claim(made[0]); len(got.Claimed.Tasks) != 1 || got.Full || got.OpensIn <= 0 || got.OpensIn > time.Minute {
		t.Errorf("the first one: %+v", got)
	}
	got := claim(made[1])
	s.none("the second one", got)
	if got.OpensIn <= 0 || got.OpensIn > time.Minute {
		t.Errorf("it opens in %v", got.OpensIn)
	}
	s.want("what waits for its turn", s.task(made[1]), "ready attempt 0 token 0 replica -: -")
	s.pass("work", time.Minute)
	if d := cmp.Diff(made[1:], ids(s.limitedClaim("work", 9).Tasks)); d != "" {
		t.Error(d)
	}
}

// Of a rate and a max_running the one holds that leaves less.
func rateBesideMaxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.rate("work", "1/m", 3)
	s.limit("work", 2)
	s.enqueue("work", 9)
	first, second := s.limitedClaim("work", 1), s.limitedClaim("work", 9)
	if len(first.Tasks) != 1 || first.Left != 1 || len(second.Tasks) != 1 || second.Left != 0 || second.OpensIn != 0 {
		t.Errorf("claimed %d with two that may run, %d left, and then %d; the rate lets one start in %v", len(first.Tasks), first.Left, len(second.Tasks), second.OpensIn)
	}
	if got := s.limitedClaim("work", 9); !got.Full || len(got.Tasks) > 0 || got.Left != 0 || got.OpensIn != 0 {
		t.Errorf("with as many as may run: %+v", got)
	}
	s.finish(result(first.Tasks[0], ledger.Ended, jobs.StateSucceeded), result(second.Tasks[0], ledger.Ended, jobs.StateSucceeded))
	if got := s.limitedClaim("work", 9); len(got.Tasks) != 1 || got.OpensIn <= 0 {
		t.Errorf("claimed %d with one in the bucket; the rate lets one start in %v", len(got.Tasks), got.OpensIn)
	}
	s.none("with room for one more", s.limitedClaim("work", 9))
}

// A pool is worth a claim while it has room and its bucket lets one start, and is again when it does.
func readyLimits(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for _, pool := range []string{"again", "default", "work"} {
		s.enqueue(pool, 5)
	}
	s.limit("work", 2)
	s.rate("default", "1/m", 2)
	s.ready("before", "again", "default", "work")
	running := s.limitedClaim("work", 1).Tasks
	s.limitedClaim("default", 1)
	s.ready("with room for one more", "again", "default", "work")
	s.limitedClaim("work", 1)
	s.ready("at max_running", "again", "default")
	s.limitedClaim("default", 1)
	s.ready("with an empty bucket, too", "again")
	s.pass("default", time.Minute)
	s.ready("after a minute", "again", "default")
	s.finish(result(running[0], ledger.Ended, jobs.StateSucceeded))
	s.ready("after an end", "again", "default", "work")
	s.limit("default", 1) // one of two runs
	s.ready("with less room than tasks that run", "again", "work")
	s.limit("default", 0)
	s.limitedClaim("default", 1)
	s.limit("work", 1)
	s.limit("again", 1)
	s.enqueue("again", 1)
	s.ready("with one that runs in work, and none in again", "again")
	is, err := s.Store.Ready(s.ctx(), asIs)
	if must(t, err); !is.Next.IsZero() {
		t.Errorf("what is held by limits waits for %v", is.Next)
	}
}

// A bucket that takes longer to be full than an empty one is of a slower rate, or of a clock that was set back. It is worth a claim:
// the next claim or decision makes it an empty one, which fills from then on.
func farBucket(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for n, write := range []func(){
		func() {
			if got := s.limitedClaim("default", 9); len(got.Tasks) > 0 || !got.Full || got.OpensIn <= 0 || got.OpensIn > time.Minute {
				t.Errorf("claimed %d, full %v, opens in %v", len(got.Tasks), got.Full, got.OpensIn)
			}
		},
		func() {
			if got, err := decidedOf(b.Store.Decide(s.ctx(), s.opening(1, 5, 9, "a"))); err != nil || len(got.Started) > 0 || len(got.Opened) != 1 {
				t.Errorf("decided %+v, %v", got, err)
			}
		},
	} {
		s.rate("default", "1/m", 3)
		s.enqueue("default", 5)
		s.DB.Exec(t, "UPDATE {pools} SET bucket_full_at=? WHERE name='default'", time.Now().Add(time.Hour).UnixNano())
		s.ready("before", "default")
		before, err := b.Store.Beat(s.ctx(), s.session) // the time of the database
		must(t, err)
		write()
		after, err := b.Store.Beat(s.ctx(), s.session)
		must(t, err)
		if full := s.fullAt("default"); full.Before(before.Add(3*time.Minute)) || full.After(after.Add(3*time.Minute)) {
			t.Errorf("%d: it is full in %v", n, full.Sub(after))
		}
		s.ready("then")
		s.pass("default", time.Minute)
		s.ready("after a minute", "default")
		if got := s.limitedClaim("default", 9); len(got.Tasks) != 1 {
			t.Errorf("%d: claimed %d after a minute", n, len(got.Tasks))
		}
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
}

// Rate and burst are in the row as they are defined. A definition that changes one of them alone is written, and leaves the bucket.
func rateDefinitions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	row := func(pool, want string) {
		t.Helper()
		s.want(pool, s.DB.Text(t, "SELECT rate FROM {pools} WHERE name=?", pool)+" "+fmt.Sprint(s.DB.Int(t, "SELECT burst FROM {pools} WHERE name=?", pool)), want)
	}
	must(t, b.Store.AddPools(s.ctx(), map[string]jobs.Pool{
		"added": {Rate: jobs.Rate{Count: 3, Per: 10 * time.Second}, Burst: 4}, "plain": {},
		"work": {Rate: jobs.Rate{Count: 3, Per: time.Hour}}, // which a replica has loaded
	}))
	row("added", "3/10s 4")
	row("plain", " 0")
	row("work", " 0")
	d := definitions()
	s.DB.Exec(t, "UPDATE {pools} SET bucket_full_at=5 WHERE name='work'")
	for _, c := range []struct {
		rate  jobs.Rate
		burst int
		want  string
	}{{jobs.Rate{Count: 50, Per: time.Second}, 0, "50/s 0"}, {jobs.Rate{Count: 51, Per: time.Second}, 0, "51/s 0"}, {jobs.Rate{Count: 51, Per: time.Second}, 7, "51/s 7"}, {jobs.Rate{}, 0, " 0"}} {
		d.Pools[2].Rate, d.Pools[2].Burst = c.rate, c.burst
		config := load(t, b, s.session, d)
		row("work", c.want)
		s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE name='work' AND config=? AND bucket_full_at=5", config)
		if same := load(t, b, s.session, d); same != config {
			t.Errorf("configuration %d has number %d when it is loaded again", config, same)
		}
		s.wantInt(config, "SELECT config FROM {pools} WHERE name='work'")
	}

	// As many starts lack in the bucket as before.
	s.enqueue("work", 9)
	for _, c := range []struct {
		per  time.Duration
		want int
	}{{time.Hour, 4}, {24 * time.Hour, 0}, {time.Minute, 0}} {
		d.Pools[2].Rate, d.Pools[2].Burst = jobs.Rate{Count: 1, Per: c.per}, 4
		load(t, b, s.session, d)
		if got := s.limitedClaim("work", 9); len(got.Tasks) != c.want {
			t.Errorf("with one in %v claimed %d, want %d", c.per, len(got.Tasks), c.want)
		}
	}
	s.pass("work", time.Minute)
	if got := s.limitedClaim("work", 9); len(got.Tasks) != 1 {
		t.Errorf("claimed %d after a minute", len(got.Tasks))
	}
}
