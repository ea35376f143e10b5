package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// contents are n configurations of the same job and pool.
func contents(n int) (all []ledger.Definitions) {
	for i := range n {
		all = append(all, ledger.Definitions{
			Jobs:  []ledger.JobDef{JobDef("j", fmt.Sprint(i), fmt.Sprint("s", i))},
			Pools: []ledger.PoolDef{{Name: "p", Hash: fmt.Sprint(i)}},
		})
	}
	return all
}

// loads loads a configuration as a replica does that starts with it.
func loads(t *testing.T, b *Bench, session string, d ledger.Definitions) int64 {
	t.Helper()
	n, err := b.Store.Load(t.Context(), session, d)
	must(t, err)
	return n
}

// A configuration has its number by its content: what was loaded before has the number that it had. It governs only when no
// live replica has a newer one, or when it was made the newest.
func numberOfContent(t *testing.T, b *Bench) {
	d := contents(3)
	a, z := Join(t, b, "a"), Join(t, b, "z")
	governs := func(what string, session string, d ledger.Definitions, want bool) {
		t.Helper()
		got, err := b.Store.Assert(t.Context(), session, d)
		must(t, err)
		if got.Governs != want {
			t.Errorf("%s: governs %v", what, got.Governs)
		}
	}
	numbers := func(want ...int64) {
		t.Helper()
		if diff := cmp.Diff(want, []int64{
			b.DB.Int(t, "SELECT config FROM {sessions} WHERE id=?", a), b.DB.Int(t, "SELECT config FROM {sessions} WHERE id=?", z),
		}); diff != "" {
			t.Error(diff)
		}
	}
	loads(t, b, a, d[0])
	loads(t, b, z, d[0])
	numbers(1, 1)
	governs("the same content", a, d[0], true)
	governs("the same content", z, d[0], true)

	loads(t, b, z, d[1])
	numbers(1, 2)
	governs("older", a, d[0], false)
	must(t, b.Store.Leave(t.Context(), a))
	a = Join(t, b, "a")
	loads(t, b, a, d[0]) // it restarts with the older file
	numbers(1, 2)
	governs("older, after a restart", a, d[0], false)
	governs("newer, after the other's restart", z, d[1], true)
	if hash := jobHash(t, b, "j"); hash != "1" {
		t.Errorf("the job has hash %q after a restart with the older file", hash)
	}

	activated := d[0]
	activated.Activate = true
	if n := loads(t, b, a, activated); n != 3 {
		t.Errorf("an older configuration has number %d after it was made the newest", n)
	}
	governs("made the newest", a, d[0], true)
	governs("the newest before", z, d[1], false)
	if n := loads(t, b, a, activated); n != 3 {
		t.Errorf("the newest configuration has number %d after it was made the newest again", n)
	}
	loads(t, b, z, d[0])
	numbers(3, 3)

	loads(t, b, z, d[1])
	numbers(3, 2)
	activated = d[1]
	activated.Activate = true
	y := Join(t, b, "y")
	if n := loads(t, b, y, activated); n != 4 {
		t.Errorf("number %d", n)
	}
	numbers(3, 4) // whoever has that content
	governs("as another replica made it the newest", z, d[1], true)

	for _, session := range []string{a, y, z} {
		must(t, b.Store.Leave(t.Context(), session))
	}
	a = Join(t, b, "a")
	loads(t, b, a, d[0]) // after all were stopped
	governs("no live replica has a newer one", a, d[0], true)
	if hash := jobHash(t, b, "j"); hash != "0" {
		t.Errorf("the job has hash %q", hash)
	}
	if n := loads(t, b, a, d[2]); n != 5 {
		t.Errorf("a new content has number %d", n)
	}
}

// Definitions are not written for a session that has another number than its replica takes it to have.
func renumbered(t *testing.T, b *Bench) {
	d := contents(2)
	a, z := Join(t, b, "a"), Join(t, b, "z")
	loads(t, b, a, d[0])
	loads(t, b, z, d[1])
	must(t, b.Store.Leave(t.Context(), z))
	d[1].Number = 2
	if _, err := b.Store.Assert(t.Context(), a, d[1]); !errors.Is(err, ledger.ErrRenumbered) {
		t.Errorf("configuration 2 for a session with number 1: %v", err)
	}
	if hash := jobHash(t, b, "j"); hash != "1" {
		t.Errorf("the job has hash %q", hash)
	}
	d[0].Number = 1
	assertHolds(t, b, a, d[0], true)
}

// What joins again with a content that was made the newest meanwhile has the number that this has now.
func renumberedWhileAway(t *testing.T, b *Bench) {
	d := contents(2)
	a, y, z := Join(t, b, "a"), Join(t, b, "y"), Join(t, b, "z")
	loads(t, b, y, d[0])
	loads(t, b, z, d[1])
	must(t, b.Store.Leave(t.Context(), y)) // as if it had expired
	d[0].Activate = true
	loads(t, b, a, d[0])
	must(t, b.Store.Leave(t.Context(), a))
	m := Member("y")
	m.Config, m.ConfigHash = 1, d[0].Content()
	y, err := b.Store.Join(t.Context(), m)
	must(t, err)
	d[0].Activate, d[0].Number = false, 1
	if _, err := b.Store.Assert(t.Context(), y, d[0]); !errors.Is(err, ledger.ErrRenumbered) {
		t.Errorf("configuration 1, which was made number 3: %v", err)
	}
	d[0].Number = 3
	assertHolds(t, b, y, d[0], true)
	assertHolds(t, b, z, d[1], false)
}

// An older file that governs again fires nothing of the past, nor does the newer one after that: each change of the schedule moves the
// cursor to now, and never back.
func oldFileFiresNothing(t *testing.T, b *Bench) {
	d := contents(2)
	a, z := Join(t, b, "a"), Join(t, b, "z")
	before, err := b.Store.Beat(t.Context(), a)
	must(t, err)
	loads(t, b, a, d[0])
	long := func() {
		past := before.Add(-time.Hour).Truncate(time.Minute)
		b.DB.Exec(t, "UPDATE {jobs} SET cursor_at=?, next_at=?", past.UnixMicro(), past.Add(time.Minute).UnixMicro())
	}
	fresh := func(what string) {
		t.Helper()
		if cursor := time.UnixMicro(b.DB.Int(t, "SELECT cursor_at FROM {jobs}")); cursor.Before(before) {
			t.Errorf("%s: the cursor is at %s, an hour back", what, cursor)
		}
	}
	long()
	loads(t, b, z, d[1])
	fresh("a newer file")
	long()
	loads(t, b, a, d[0])
	if cursor := time.UnixMicro(b.DB.Int(t, "SELECT cursor_at FROM {jobs}")); !cursor.Before(before) {
		t.Errorf("a restart with the older file moved the cursor to %s", cursor)
	}
	activated := d[0]
	activated.Activate = true
	loads(t, b, a, activated)
	fresh("the older file, activated")
	long()
	must(t, b.Store.Leave(t.Context(), a))
	assertHolds(t, b, z, d[1], true)
	fresh("the newer file, as no replica has the other one")
	if n := b.DB.Int(t, "SELECT COUNT(*) FROM {triggers} WHERE outcome<>'missed'"); n != 0 {
		t.Errorf("%d due times fired", n)
	}
}

// Each session shows which content it has loaded, from a file of when, and what the governing one has otherwise.
func shownWithTheSession(t *testing.T, b *Bench) {
	d := contents(2)
	d[0].At = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	a := Join(t, b, "a")
	loads(t, b, a, d[0])
	must(t, b.Store.SetDiffers(t.Context(), a, "1 job: j"))
	z, err := b.Store.Join(t.Context(), ledger.Member{Replica: "z", LockService: "memory", Config: 7, ConfigHash: "h", ConfigAt: d[0].At})
	must(t, err)
	peers, err := b.Store.Peers(t.Context())
	must(t, err)
	shown := func(session string) string {
		i := slices.IndexFunc(peers, func(p ledger.Peer) bool { return p.Session == session })
		p := peers[i]
		return fmt.Sprint(p.Config, " ", p.ConfigHash, " ", p.ConfigAt, " ", p.Differs)
	}
	if got, want := shown(a), fmt.Sprint(1, " ", d[0].Content(), " ", d[0].At, " 1 job: j"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := shown(z), fmt.Sprint(7, " h ", d[0].At, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	must(t, b.Store.Leave(t.Context(), a))
	must(t, b.Store.SetDiffers(t.Context(), a, "nothing")) // of a dead session
	if got := b.DB.Text(t, "SELECT differs FROM {sessions} WHERE id=?", a); got != "1 job: j" {
		t.Errorf("a session that has left differs in %q", got)
	}
}

// Pending tasks of jobs that a configuration does not have any more are cancelled when its definitions are written; what runs, ends by
// itself. Those of pools that it does not have wait.
func removedJobs(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false), run("b", due(1), true), run("c", due(1), false))
	must(t, err)
	own := s.enqueue("work", 1)[0]
	d := definitions()
	d.Jobs, d.Pools = d.Jobs[:1], d.Pools[:2]
	load(t, b, s.session, d)
	s.want("what is still defined", s.trigger("a", due(1), 0), "open: -")
	s.want("what runs", s.trigger("b", due(1), 0), "open: -")
	s.want("what never ran", s.trigger("c", due(1), 0), "skipped cancelled: cancelled")
	s.wantInt(1, "SELECT COUNT(*) FROM {done} WHERE job='c' AND state='cancelled' AND reason=? AND reason_code='job_removed'", ledger.ReasonRetired)
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE id=? AND state=0", own)
	s.wantInt(3, "SELECT COUNT(*) FROM {tasks}")
	load(t, b, s.session, definitions())
	s.want("after it came back", s.trigger("c", due(1), 0), "skipped cancelled: cancelled")
}

func manyTasksOfRemovedJobs(t *testing.T, b *Bench) {
	s := newScene(t, b)
	var all []ledger.Decision
	const n = 1200 // more than two portions
	for i := range n {
		all = append(all, run("c", due(1).Add(time.Duration(i)*time.Second), false))
	}
	for part := range slices.Chunk(all, 100) {
		for _, one := range part {
			one.Triggers[0].Task.Pool = "work"
		}
		_, err := s.decide(part...)
		must(t, err)
	}
	s.wantInt(n, "SELECT COUNT(*) FROM {tasks} WHERE job='c'")
	d := definitions()
	d.Jobs = d.Jobs[:2]
	load(t, b, s.session, d)
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks} WHERE job='c'")
	s.wantInt(n, "SELECT COUNT(*) FROM {done} WHERE job='c' AND state=? AND reason_code='job_removed'", string(jobs.StateCancelled))
}

// What follows what a session has asserted is compared with the rows of the jobs that have changed, and with no others: until another number is given out.
func followed(t *testing.T, b *Bench) {
	of := func(number, since int64, changed []string, names ...string) ledger.Definitions {
		d := ledger.Definitions{Number: number, Since: since, Changed: changed, Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 1}}}
		for _, name := range names {
			d.Jobs = append(d.Jobs, JobDef(name[:1], name, "s"))
		}
		return d
	}
	a := Join(t, b, "a")
	asserts := func(what string, d ledger.Definitions, followed bool, want ...string) {
		t.Helper()
		got, err := b.Store.Assert(t.Context(), a, d)
		must(t, err)
		var hashes []string
		for _, name := range []string{"j", "k", "l"} {
			hashes = append(hashes, jobHash(t, b, name))
		}
		if diff := cmp.Diff(want, hashes); diff != "" || !got.Governs || got.Followed != followed {
			t.Errorf("%s: %+v\n%s", what, got, diff)
		}
	}
	loads(t, b, a, of(0, 0, nil, "j1", "k1"))
	asserts("nothing was asserted", of(1, 0, nil, "j1", "k1"), false, "j1", "k1", "")
	asserts("the same again", of(1, 1, nil, "j1", "k2"), true, "j1", "k1", "")
	if _, err := b.Store.Enter(t.Context(), a, of(0, 0, nil, "j2", "k1", "l1")); err != nil {
		t.Fatal(err)
	}
	asserts("the next one", of(2, 1, []string{"j", "l"}, "j2", "k2", "l1"), true, "j2", "k1", "l1")
	if _, err := b.Store.Enter(t.Context(), a, of(0, 0, nil, "j2", "k1")); err != nil {
		t.Fatal(err)
	}
	asserts("a removed one", of(3, 2, []string{"l"}, "j2", "k2"), true, "j2", "k1", "")

	z := Join(t, b, "z")
	loads(t, b, z, of(0, 0, nil, "j4", "k4"))
	other := of(3, 3, nil, "j2", "k2")
	if got, err := b.Store.Assert(t.Context(), a, other); err != nil || got.Governs || got.Followed || !slices.Equal(got.Jobs, []string{"j", "k"}) {
		t.Errorf("beside a newer one: %+v, %v", got, err)
	}
	must(t, b.Store.Leave(t.Context(), z))
	asserts("a newer one has written rows", other, false, "j2", "k2", "")
	loads(t, b, a, of(0, 0, nil, "j5", "k2"))
	asserts("two numbers later", of(5, 3, nil, "j5", "k5"), false, "j5", "k5", "")
	if n := loads(t, b, a, of(0, 0, nil, "j2", "k1")); n != 3 {
		t.Fatalf("number %d", n)
	}
	asserts("an older one that governs", of(3, 5, nil, "j2", "k1"), false, "j2", "k1", "")

	up, err := b.Store.UpcomingOf(t.Context(), []string{"j", "l", "none"})
	must(t, err)
	if len(up) != 1 || up[0].Job != "j" || up[0].NextAt.IsZero() {
		t.Errorf("the next due times of some jobs: %+v", up)
	}
	if up, err = b.Store.UpcomingOf(t.Context(), nil); err != nil || len(up) > 0 {
		t.Errorf("of none: %v, %v", up, err)
	}
}
