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

// A session that lives and reloads has the kinds of its last configuration alone; those of another live session, and of dead ones that are shown, stay.
func sweepKindsOfReloads(t *testing.T, b *Bench) {
	reloading, older, dead := Join(t, b, "reloading"), Join(t, b, "older"), Join(t, b, "dead")
	d := contents(5)
	for i := range d {
		d[i].Pools = append(d[i].Pools, ledger.PoolDef{Name: "q", Hash: fmt.Sprint(i)})
	}
	loads(t, b, older, d[0])
	loads(t, b, dead, d[1])
	must(t, b.Store.Leave(t.Context(), dead))
	for _, one := range d {
		loads(t, b, reloading, one)
	}
	sweep := func() bool {
		t.Helper()
		more, err := b.Store.Sweep(t.Context(), asIs, jobs.Retention{}, 3)
		must(t, err)
		return more
	}
	rows := func(config int) int64 { return b.DB.Int(t, "SELECT COUNT(*) FROM {kinds} WHERE config=?", config) }
	if more := sweep(); !more {
		t.Error("after three of at most three it does not say that more may be left")
	}
	if n := rows(3) + rows(4); n != 1 {
		t.Errorf("of four rows that nobody needs %d are left after a sweep of three", n)
	}
	if more := sweep(); more {
		t.Error("after the last one it says that more may be left")
	}
	var left []int64
	for i := range 5 {
		left = append(left, rows(i+1))
	}
	if diff := cmp.Diff([]int64{2, 2, 0, 0, 2}, left); diff != "" {
		t.Errorf("kinds of the configurations: %s", diff)
	}
}

// The number of a configuration is deleted when it was superseded longer ago than triggers are kept, unless a session has it or it is among the newest:
// until then the content does not become the newest when it is loaded again.
func sweepConfigurations(t *testing.T, b *Bench) {
	a, z := Join(t, b, "a"), Join(t, b, "z")
	d := contents(7)
	loads(t, b, a, d[0])
	for _, one := range d[1:] {
		loads(t, b, z, one)
	}
	at := func(number int, age time.Duration) {
		b.DB.Exec(t, "UPDATE {configurations} SET at=? WHERE number=?", ago(age), number)
	}
	const day = 24 * time.Hour
	for number, age := range map[int]time.Duration{1: 90 * day, 2: 80 * day, 3: 70 * day, 4: 60 * day, 5: 40 * day, 6: 20 * day, 7: 0} {
		at(number, age)
	}
	sweep := func(limit int, age time.Duration) bool {
		t.Helper()
		more, err := b.Store.Sweep(t.Context(), asIs, jobs.Retention{Triggers: age}, limit)
		must(t, err)
		return more
	}
	left := func(what string, want ...int) {
		t.Helper()
		var got []int
		for i, one := range d {
			if b.DB.Int(t, "SELECT COUNT(*) FROM {configurations} WHERE hash=?", one.Content()) == 1 {
				got = append(got, i+1)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v are left, want %v", what, got, want)
		}
	}
	sweep(100, 30*day)
	left("few are newer", 1, 2, 3, 4, 5, 6, 7)

	b.DB.Exec(t, "INSERT INTO {configurations} (hash, number, at) VALUES ('another', ?, ?)", ledger.KeptConfigurations+5, ago(0))
	sweep(100, 0)
	left("all are kept", 1, 2, 3, 4, 5, 6, 7)
	if !sweep(1, 30*day) {
		t.Error("after one of at most one it does not say that more may be left")
	}
	if n := b.DB.Int(t, "SELECT COUNT(*) FROM {configurations}"); n != 7 {
		t.Errorf("after a sweep of one of eight %d are left", n)
	}
	if sweep(100, 30*day) {
		t.Error("it says that more is left")
	}
	left("1 is loaded, and 5 was superseded 20 days ago", 1, 5, 6, 7)

	if n := loads(t, b, z, d[4]); n != 5 {
		t.Errorf("what was kept has number %d", n)
	}
	must(t, b.Store.Leave(t.Context(), a))
	sweep(100, 30*day)
	left("its session is still shown", 1, 5, 6, 7)

	sweep(100, 10*day)
	left("5 is loaded", 1, 5, 6, 7)
	loads(t, b, z, d[6])
	sweep(100, 10*day)
	left("nobody has 5 any more", 1, 6, 7)
	b.DB.Exec(t, "UPDATE {configurations} SET number=number+1 WHERE hash='another'")
	at(7, 15*day)
	sweep(100, 10*day)
	left("6 has a thousand newer ones", 1, 7)
}
