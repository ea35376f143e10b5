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

var definitionCases = []Case{
	{"Definitions/NewerGoverns", newerGoverns},
	{"Definitions/Followed", followed},
	{"Definitions/Differs", toldWhatDiffers},
	{"Definitions/NumberOfContent", numberOfContent},
	{"Definitions/Renumbered", renumbered},
	{"Definitions/RenumberedWhileAway", renumberedWhileAway},
	{"Definitions/OldFileFiresNothing", oldFileFiresNothing},
	{"Definitions/ShownWithTheSession", shownWithTheSession},
	{"Definitions/RemovedJobs", removedJobs},
	{"Definitions/ManyTasksOfRemovedJobs", manyTasksOfRemovedJobs},
	{"Definitions/ScheduleEdits", scheduleEdits},
	{"Definitions/Overtaken", overtaken},
	{"Definitions/Jitter", startsLater},
	{"Definitions/EachField", eachField},
	{"Definitions/OnDemand", onDemand},
	{"Definitions/OverridesSurvive", overridesSurvive},
	{"Definitions/UnchangedRowsAreNotWritten", unchangedRowsAreNotWritten},
	{"Definitions/DeadSession", deadSessionDefines},
	{"Definitions/LoadsAtOnce", loadsAtOnce},
	{"Definitions/BesideWork", loadsBesideWork},
	{"Definitions/UpcomingAndOverdue", upcomingAndOverdue},
	{"Definitions/AddPools", addPools},
	{"Definitions/AddPoolsInOtherCapitals", addPoolsInOtherCapitals},
}

// JobDef is a job that is due each minute.
func JobDef(name, hash, schedule string) ledger.JobDef {
	return ledger.JobDef{
		Name: name, Hash: hash, Schedule: schedule, Stripe: len(name) % 64,
		Next: func(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) },
	}
}

// Pools makes these the only pools, with 3 attempts each.
func Pools(t *testing.T, b *Bench, session string, names ...string) {
	t.Helper()
	var d ledger.Definitions
	for _, name := range names {
		d.Pools = append(d.Pools, ledger.PoolDef{Name: name, Hash: "h", MaxAttempts: 3, Retry: true})
	}
	load(t, b, session, d)
}

// load loads a configuration, which is the newest then.
func load(t *testing.T, b *Bench, session string, d ledger.Definitions) int64 {
	t.Helper()
	d.Activate = true
	n, err := b.Store.Load(t.Context(), session, d)
	must(t, err)
	return n
}

func assertHolds(t *testing.T, b *Bench, session string, d ledger.Definitions, want bool) {
	t.Helper()
	got, err := b.Store.Assert(t.Context(), session, d)
	must(t, err)
	if got.Governs != want || want && len(got.Jobs)+len(got.Pools) > 0 {
		t.Fatalf("Assert says %+v, want %t", got, want)
	}
}

func jobHash(t *testing.T, b *Bench, name string) string {
	t.Helper()
	return b.DB.Text(t, `SELECT hash FROM {jobs} WHERE name = ?`, name)
}

func newerGoverns(t *testing.T, b *Bench) {
	old := ledger.Definitions{
		Jobs:  []ledger.JobDef{JobDef("gone", "1", "s"), JobDef("kept", "1", "s")},
		Pools: []ledger.PoolDef{{Name: "gone", Hash: "1"}, {Name: "kept", Hash: "1", MaxAttempts: 1}},
	}
	edited := ledger.Definitions{
		Jobs:  []ledger.JobDef{JobDef("kept", "2", "s"), JobDef("more", "2", "s")},
		Pools: []ledger.PoolDef{{Name: "kept", Hash: "1", MaxAttempts: 5, MaxRunning: 7, Rate: jobs.Rate{Count: 8, Per: time.Second}, Burst: 9, Retry: true}},
	}
	a, z := Join(t, b, "a"), Join(t, b, "z")
	if n := load(t, b, a, old); n != 1 {
		t.Fatalf("the first configuration has number %d", n)
	}
	if n := load(t, b, z, edited); n != 2 {
		t.Fatalf("the second configuration has number %d", n)
	}
	hashes := func() (all []string) {
		for _, name := range []string{"gone", "kept", "more"} {
			all = append(all, jobHash(t, b, name))
		}
		return all
	}
	assertHolds(t, b, a, old, false)
	if diff := cmp.Diff([]string{"", "2", "2"}, hashes()); diff != "" {
		t.Fatal(diff)
	}
	if next := b.DB.Int(t, `SELECT next_at FROM {jobs} WHERE name = 'gone'`); next != 0 {
		t.Fatalf("a retired job is due at %d", next)
	}
	pool := b.DB.Text(t, `SELECT hash FROM {pools} WHERE name = 'gone'`)
	policy := b.DB.Int(t, `SELECT max_attempts * 100 + max_running FROM {pools} WHERE name = 'kept' AND on_lost = 'retry' AND rate = '8/s' AND burst = 9`)
	if pool != "" || policy != 507 {
		t.Fatalf("the retired pool has hash %q, the edited one %d", pool, policy)
	}

	must(t, b.Store.Leave(t.Context(), z))
	assertHolds(t, b, a, old, true)
	if diff := cmp.Diff([]string{"1", "1", ""}, hashes()); diff != "" {
		t.Fatal(diff)
	}
	y := Join(t, b, "y")
	if n := load(t, b, y, edited); n != 2 {
		t.Fatalf("the second configuration has number %d when it is loaded again", n)
	}
}

// A replica that does not govern gets, in order, what the governing configuration has otherwise. With the same definitions
// it does not govern either.
func toldWhatDiffers(t *testing.T, b *Bench) {
	var old, edited ledger.Definitions
	var want ledger.Assertion
	for i := range 20 {
		job, pool := fmt.Sprintf("j%02d", i), fmt.Sprintf("p%02d", i)
		old.Jobs, edited.Jobs = append(old.Jobs, JobDef(job, "1", "s")), append(edited.Jobs, JobDef(job, "2", "s"))
		old.Pools = append(old.Pools, ledger.PoolDef{Name: pool, Hash: "1"})
		rate := jobs.Rate{Count: 20 - i, Per: time.Minute}
		edited.Pools = append(edited.Pools, ledger.PoolDef{Name: pool, Hash: "2", MaxRunning: i, Rate: rate, Burst: 3})
		want.Jobs, want.Pools = append(want.Jobs, job), append(want.Pools, ledger.OtherPool{Name: pool, Hash: "2", MaxRunning: i, Rate: rate})
	}
	a, z := Join(t, b, "a"), Join(t, b, "z")
	load(t, b, a, old)
	load(t, b, z, edited)
	got, err := b.Store.Assert(t.Context(), a, old)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	assertHolds(t, b, a, edited, false)
}

// A row that differs from its definition is written again, whatever wrote it.
func eachField(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	d := ledger.Definitions{
		Jobs:  []ledger.JobDef{JobDef("j", "1", "s")},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 5, MaxRunning: 7, Rate: jobs.Rate{Count: 8, Per: time.Second}, Burst: 9, Retry: true, Kinds: map[string]string{"fax": "1"}}},
	}
	load(t, b, a, d)
	for table, columns := range map[string][]string{
		"jobs":  {"hash='x'", "schedule='x'", "stripe=63"},
		"pools": {"hash='x'", "max_running=1", "rate='8/m'", "rate=''", "burst=1", "max_attempts=1", "on_lost='fail'", "kinds=''", "hash=''"},
	} {
		for _, column := range columns {
			b.DB.Exec(t, `UPDATE {`+table+`} SET `+column)
			assertHolds(t, b, a, d, true)
			if n := b.DB.Int(t, `SELECT COUNT(*) FROM {jobs} WHERE hash='1' AND schedule='s' AND stripe=?`, d.Jobs[0].Stripe); n != 1 {
				t.Errorf("%s with %s stayed as it was", table, column)
			}
			if n := b.DB.Int(t, `SELECT COUNT(*) FROM {pools} WHERE hash='1' AND max_running=7 AND rate='8/s' AND burst=9 AND max_attempts=5 AND on_lost='retry'`); n != 1 {
				t.Errorf("%s with %s stayed as it was", table, column)
			}
			if _, err := b.Store.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Kind: "mail"}); !errors.Is(err, jobs.ErrNoHandler) {
				t.Errorf("%s with %s: a kind that the pool does not have: %v", table, column, err)
			}
		}
	}
}

// A job that is run on demand alone has no due time, and none that an edit could miss.
func onDemand(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	never := func(hash, schedule string) ledger.Definitions {
		j := JobDef("j", hash, schedule)
		j.Next = func(time.Time) time.Time { return time.Time{} }
		return ledger.Definitions{Jobs: []ledger.JobDef{j}}
	}
	load(t, b, a, never("1", ""))
	if cursor := b.DB.Int(t, `SELECT cursor_at FROM {jobs} WHERE next_at = 0`); cursor < ago(time.Hour) {
		t.Errorf("a new job begins at %v", time.UnixMicro(cursor))
	}
	load(t, b, a, never("2", "on demand"))
	load(t, b, a, never("3", ""))
	load(t, b, a, ledger.Definitions{})
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {triggers}`); n != 0 {
		t.Errorf("%d due times of a job that has none were missed", n)
	}
}

func overridesSurvive(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	d := ledger.Definitions{Jobs: []ledger.JobDef{JobDef("j", "1", "s")}, Pools: []ledger.PoolDef{{Name: "p", Hash: "1"}}}
	load(t, b, a, d)
	yes, no := true, false
	must(t, b.Store.SuspendJob(t.Context(), "j", "ann", &yes))
	must(t, b.Store.PausePool(t.Context(), "p", "bob", &no))
	b.DB.Exec(t, `UPDATE {jobs} SET fence = 41, busy_until = 42 WHERE name = 'j'`)
	d.Jobs[0].Hash, d.Jobs[0].Schedule, d.Pools[0].Hash = "2", "s2", "2"
	load(t, b, a, d)
	jobs, err := b.Store.Jobs(t.Context(), "j")
	must(t, err)
	pools, err := b.Store.Pools(t.Context())
	must(t, err)
	j, p := jobs[0], pools[0]
	if !j.Suspended || j.Override == nil || j.SuspendedBy != "ann" || j.Fence != 41 || j.Hash != "2" ||
		p.Paused == nil || *p.Paused || p.PausedBy != "bob" || p.Hash != "2" {
		t.Fatalf("%+v %+v", j, p)
	}
	if busy := b.DB.Int(t, `SELECT busy_until FROM {jobs} WHERE name = 'j'`); busy != 42 {
		t.Fatalf("busy_until is %d", busy)
	}
}

func deadSessionDefines(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	must(t, b.Store.Leave(t.Context(), a))
	d := ledger.Definitions{Jobs: []ledger.JobDef{JobDef("j", "1", "s")}}
	if _, err := b.Store.Load(t.Context(), a, d); !errors.Is(err, ledger.ErrSessionDead) {
		t.Fatalf("Load: %v", err)
	}
	if _, err := b.Store.Assert(t.Context(), a, d); !errors.Is(err, ledger.ErrSessionDead) {
		t.Fatalf("Assert: %v", err)
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {jobs}`); n != 0 {
		t.Fatalf("a dead session wrote %d rows", n)
	}
	if n := load(t, b, Join(t, b, "z"), d); n != 1 {
		t.Errorf("after a dead session the first configuration has number %d", n)
	}
}

func upcomingAndOverdue(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	var d ledger.Definitions
	for i := range 4 {
		j := JobDef(fmt.Sprint("j", i), "1", "s")
		j.Stripe = i
		if i == 3 {
			j.Next = func(time.Time) time.Time { return time.Time{} } // on demand only
		}
		d.Jobs = append(d.Jobs, j)
	}
	load(t, b, a, d)
	at := func(i int) time.Time { return time.UnixMicro(int64(1000 - i)).UTC() }
	for i := range 3 {
		b.DB.Exec(t, `UPDATE {jobs} SET next_at = ? WHERE name = ?`, at(i).UnixMicro(), fmt.Sprint("j", i))
	}
	up, err := b.Store.Upcoming(t.Context(), []int{0, 2, 3, 63})
	must(t, err)
	slices.SortFunc(up, func(x, y ledger.Upcoming) int { return x.NextAt.Compare(y.NextAt) })
	if diff := cmp.Diff([]ledger.Upcoming{{Job: "j2", NextAt: at(2)}, {Job: "j0", NextAt: at(0)}}, up); diff != "" {
		t.Fatal(diff)
	}
	if up, err = b.Store.Upcoming(t.Context(), nil); err != nil || len(up) > 0 {
		t.Errorf("of no stripes: %v, %v", up, err)
	}
	over, err := b.Store.Overdue(t.Context(), at(1), 10)
	must(t, err)
	if diff := cmp.Diff([]ledger.Upcoming{{Job: "j2", NextAt: at(2)}, {Job: "j1", NextAt: at(1)}}, over); diff != "" {
		t.Fatal(diff)
	}
	if over, err = b.Store.Overdue(t.Context(), at(0), 1); err != nil || len(over) != 1 || over[0].Job != "j2" {
		t.Fatalf("%v %v", over, err)
	}
}
