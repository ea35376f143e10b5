package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/store"
)

func unchangedRowsAreNotWritten(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	d := ledger.Definitions{
		Jobs:  []ledger.JobDef{JobDef("edited", "1", "s"), JobDef("same", "1", "s")},
		Pools: []ledger.PoolDef{{Name: "same", Hash: "1"}},
	}
	load(t, b, a, d)
	d.Jobs[0].Hash = "2"
	load(t, b, a, d)
	config := func(table, name string) int64 {
		return b.DB.Int(t, `SELECT config FROM {`+table+`} WHERE name = ?`, name)
	}
	if e, j, p := config("jobs", "edited"), config("jobs", "same"), config("pools", "same"); e != 2 || j != 1 || p != 1 {
		t.Fatalf("written by configurations %d, %d, %d", e, j, p)
	}
}

// loadsBesideWork: rows that a configuration does not change hold it up by no lock, as claims and decisions take them.
func loadsBesideWork(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, all writes take turns
	}
	s := newScene(t, b)
	d := definitions()
	d.Jobs[1].Hash, d.Pools[1].Hash = "edited", "edited"
	work, err := b.DB.Handle().BeginTx(s.ctx(), nil)
	must(t, err)
	defer func() { _ = work.Rollback() }()
	for _, row := range []string{"jobs WHERE name='a'", "jobs WHERE name='c'", "pools WHERE name='again'", "pools WHERE name='work'"} {
		must(t, work.QueryRowContext(s.ctx(), "SELECT name FROM lockstep_"+row+" FOR UPDATE").Scan(new(string)))
	}
	soon, stop := context.WithTimeout(s.ctx(), 20*time.Second)
	defer stop()
	_, err = b.Store.Load(soon, s.session, d)
	must(t, err)
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE hash='edited'")
	s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE hash='edited'")
}

// loadsAtOnce: the session with the highest number governs, in whatever order they write.
func loadsAtOnce(t *testing.T, b *Bench) {
	const replicas = 6
	stores := []interface {
		Load(ctx context.Context, session string, d ledger.Definitions) (int64, error)
	}{b.Store, b.Open(t)}
	var sessions []string
	for i := range replicas {
		sessions = append(sessions, Join(t, b, fmt.Sprint("r", i)))
	}
	numbers := make([]int64, replicas)
	definitions := func(i int) (d ledger.Definitions) {
		for k := range 700 { // more than one batch
			d.Jobs = append(d.Jobs, JobDef(fmt.Sprintf("j%04d", k), fmt.Sprint("of ", i), "s"))
		}
		return d
	}
	Together(t, replicas, func(ctx context.Context, i int) (err error) {
		numbers[i], err = stores[i%2].Load(ctx, sessions[i], definitions(i))
		return err
	})
	newest := slices.Index(numbers, slices.Max(numbers))
	assertHolds(t, b, sessions[newest], definitions(newest), true)
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {jobs} WHERE hash = ?`, fmt.Sprint("of ", newest)); n != 700 {
		t.Fatalf("%d of 700 rows are the newest configuration's", n)
	}
	slices.Sort(numbers)
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6}, numbers); diff != "" {
		t.Fatal(diff)
	}
}

func hundredThousand(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	var d ledger.Definitions
	const n = 100_000 / scale
	for i := range n {
		d.Jobs = append(d.Jobs, JobDef(fmt.Sprintf("job-%06d", i), "1", "s"))
	}
	start := time.Now()
	load(t, b, a, d)
	first := time.Since(start)
	d.Jobs[77].Hash = "2"
	start = time.Now()
	load(t, b, a, d)
	again := time.Since(start)
	t.Logf("%d jobs: %s, with one edit %s", n, first.Round(time.Millisecond), again.Round(time.Millisecond))
	if untouched := b.DB.Int(t, `SELECT COUNT(*) FROM {jobs} WHERE config = 1`); untouched != n-1 {
		t.Fatalf("%d rows were left alone, of %d", untouched, n)
	}
	if first > 30*time.Second || again > 10*time.Second {
		t.Fatal("that is too slow")
	}
}
