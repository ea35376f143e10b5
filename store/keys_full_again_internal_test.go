package store

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The bucket of a key is written unless it is full again by now: who reads it next would find it full. A row that says otherwise is corrected.
func TestABucketThatIsFullAgainIsNotWritten(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limits := ledger.Limits{Rate: jobs.Rate{Count: 100, Per: time.Second}, Burst: 100}
	for what, c := range map[string]struct {
		since  time.Duration // it was told the time
		row    keyRow
		starts int
		wait   bool
		writes bool
	}{
		"just now":                     {starts: 1, writes: true},
		"a start ago":                  {since: 20 * time.Millisecond, starts: 1},
		"three starts, and two are":    {since: 20 * time.Millisecond, starts: 3, writes: true},
		"nothing started":              {since: time.Hour},
		"it was not full":              {since: 20 * time.Millisecond, row: keyRow{bucket: ledger.Bucket(now.Add(5 * time.Millisecond).UnixNano())}, starts: 1, writes: true},
		"it was full long ago":         {since: 20 * time.Millisecond, row: keyRow{bucket: ledger.Bucket(now.Add(-time.Hour).UnixNano())}, starts: 1},
		"it would be full next year":   {since: 20 * time.Millisecond, row: keyRow{bucket: ledger.Bucket(now.AddDate(1, 0, 0).UnixNano())}, writes: true},
		"a task waits from now on":     {since: time.Hour, starts: 1, wait: true, writes: true},
		"tasks wait, and it is looked": {since: time.Hour, row: keyRow{locked: true, lookAt: 1}, starts: 1, writes: true},
	} {
		t.Run(what, func(t *testing.T) {
			k := &poolKeys{is: perKey{Limits: limits}, now: now, told: time.Now().Add(-c.since), rows: map[string]*keyRow{}}
			r := c.row
			r.limits, r.behind = limits, c.wait
			k.rows["a"] = &r
			k.know(&r)
			for range c.starts {
				k.start(&openTask{Task: jobs.Task{ID: "t", Key: "a"}})
			}
			if got := len(k.changed()) > 0; got != c.writes {
				t.Errorf("the row is written: %t", got)
			}
		})
	}
}

// A pool whose limits by key are far away has no rows of keys, and its claims find that out and read none.
func TestLimitsThatAreFarHaveNoRows(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
		if err != nil {
			t.Fatal(err)
		}
		far, near := jobs.Rate{Count: 1_000_000, Per: time.Second}, jobs.Rate{Count: 10, Per: time.Hour}
		defs := ledger.Definitions{Pools: []ledger.PoolDef{
			{Name: "far", Hash: "h", MaxAttempts: 1, PerKey: jobs.KeyLimits{MaxRunning: 100, Rate: far}},
			{Name: "near", Hash: "h", MaxAttempts: 1, PerKey: jobs.KeyLimits{MaxRunning: 100, Rate: near, Burst: 10}},
		}}
		if _, err := s.Sides().Replica.Load(ctx, session, defs); err != nil {
			t.Fatal(err)
		}
		for _, pool := range []string{"far", "near"} {
			for range 3 {
				if _, err := s.Enqueue(ctx, jobs.NewTask{Pool: pool, Key: "a"}, jobs.NewTask{Pool: pool, Key: "b"}); err != nil {
					t.Fatal(err)
				}
				if got, err := claimOf(ctx, s, session, pool); err != nil || len(got.Tasks) != 2 {
					t.Fatalf("%s: claimed %d tasks: %v", pool, len(got.Tasks), err)
				}
			}
		}
		if rows := text(t, s, `SELECT CONCAT(COUNT(*), ' ', COALESCE(MIN(pool), ''), ' ', COALESCE(MAX(pool), '')) FROM {keys}`); rows != "2 near near" {
			t.Errorf("rows of keys: %s", rows)
		}
	})
}

func claimOf(ctx context.Context, s *Store, session, pool string) (ledger.Claimed, error) {
	return s.Sides().Replica.Claim(ctx, ledger.Claim{
		Admission: ledger.Admission{
			Session: session, Replica: "r", Pools: map[string]ledger.Share{pool: {Hash: "h", Limited: true, Room: 50}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
			Locks: func(ledger.Candidate) ledger.Locking { return ledger.Locking{} },
		},
		Pool: pool, ID: uuid.NewString(), Now: func(now time.Time) (time.Time, error) { return now, nil },
	})
}
