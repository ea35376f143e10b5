package moving

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
	"github.com/lockstep-scheduler/lockstep/store"
)

type Welcome struct{ User int }

var errNoAddress = errors.New("no address")

// sent are the idempotency keys that arrived.
var sent []string

func send(_ context.Context, w Welcome, key string) error {
	if w.User == 0 {
		return errNoAddress
	}
	sent = append(sent, key)
	return nil
}

func sendWelcome(ctx context.Context, t jobs.Task, w Welcome) error {
	err := send(ctx, w, t.IdempotencyKey)
	if errors.Is(err, errNoAddress) {
		return jobs.Permanent(err) // another attempt would not help
	}
	return err
}

func sendDigest(context.Context, jobs.Task, struct{}) error { return nil }

// The handlers, the set and the transaction of asynq's page.
func TestAsynq(t *testing.T) {
	set := jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {
			Workers: 20, // at once in this process
			Timeout: time.Minute,
			Retries: jobs.Retries{Limit: 5},
			Kinds:   map[string]jobs.Handler{"welcome": jobs.Func(sendWelcome)},
		}},
		Jobs: map[string]jobs.Job{"digest": {Schedule: "0 8 * * MON-FRI", Handler: jobs.Func(sendDigest)}},
	}
	b := schedulertest.New(t, set, schedulertest.Options{})
	b.Enqueue(jobs.NewTask{Pool: "mail", Kind: "welcome", Payload: Welcome{User: 7}}, jobs.NewTask{Pool: "mail", Kind: "welcome", Payload: Welcome{}})
	states := map[jobs.State]int{}
	for _, task := range b.Drain() {
		states[task.State]++
	}
	if states[jobs.StateSucceeded] != 1 || states[jobs.StateFailed] != 1 || len(sent) != 1 {
		t.Errorf("states %v, sent %v", states, sent)
	}

	st, db := open(t)
	ctx := t.Context()
	if err := st.AddPools(ctx, set.Pools); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func() error {
		_, err := st.EnqueueTx(ctx, tx, jobs.NewTask{
			Pool: "mail", Kind: "welcome", Payload: Welcome{User: 7},
			IdempotencyKey: "welcome-7", RunAt: time.Now().Add(10 * time.Minute),
		})
		return err
	}
	if err := enqueue(); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}

// open makes a store on a database of the test's own.
func open(t *testing.T) (*store.Store, *sql.DB) {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	t.Cleanup(func() { _ = db.Close() })
	st, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st, db
}

type list struct{ Name string }

var daily = make(chan string, 1)

func sendDaily(_ context.Context, _ jobs.Task, l list) error {
	daily <- l.Name
	return nil
}

func run(ctx context.Context, st *store.Store, lk *locks.Locker, set jobs.Set) error {
	s, err := scheduler.New(st, lk, set, scheduler.Options{})
	if err != nil {
		return err
	}
	return s.Run(ctx) // until ctx ends: then it finishes what runs, and returns nil
}

// The set, the run and the lock of gocron's page.
func TestGocron(t *testing.T) {
	set := jobs.Set{Jobs: map[string]jobs.Job{"digest": {
		Schedule: "0 8 * * MON-FRI",
		Timezone: "Europe/London",
		Handler:  jobs.Func(sendDaily),
		Payload:  map[string]string{"name": "daily"},
	}}}
	if err := set.Validate(); err != nil {
		t.Fatal(err)
	}
	st, _ := open(t)
	lk, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer lk.Close(context.Background())
	soon := set.Jobs["digest"]
	soon.Schedule = "@every 1s"
	set.Jobs["digest"] = soon
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, st, lk, set) }()
	select {
	case name := <-daily:
		if name != "daily" {
			t.Errorf("the payload arrived as %q", name)
		}
	case <-time.After(30 * time.Second):
		t.Error("the job did not run")
	}
	go func() { // more due times
		for range daily {
		}
	}()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(daily)
}

func TestLock(t *testing.T) {
	ctx := t.Context()
	lk, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer lk.Close(context.Background())
	var tokens []locks.Token
	writeReport := func(_ context.Context, token locks.Token) error {
		tokens = append(tokens, token)
		return nil
	}
	report := func() error {
		err := locks.Do(ctx, lk, locks.Request{Key: "report"}, func(ctx context.Context, token locks.Token) error {
			return writeReport(ctx, token) // ctx ends if the lock is lost; the writer refuses smaller tokens
		})
		return err
	}
	for range 2 {
		if err := report(); err != nil {
			t.Fatal(err)
		}
	}
	if len(tokens) != 2 || tokens[1] <= tokens[0] {
		t.Errorf("tokens %v", tokens)
	}
}
