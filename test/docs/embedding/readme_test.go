package embedding

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func program(ctx context.Context, db *sql.DB, rdb *redis.Client) error {
	st, _ := store.New(db, store.MySQL, store.Options{}) // your handle; st.Migrate(ctx), or your own tool
	lk, err := locks.New(redislock.New(rdb), locks.Options{})
	if err != nil {
		return err
	}
	s, _ := scheduler.New(st, lk, jobs.Set{ // the same struct that the YAML file becomes
		Pools: map[string]jobs.Pool{"mail": {Workers: 20, MaxRunning: 100, Kinds: map[string]jobs.Handler{"welcome": jobs.Func(sendWelcome)}}},
		Jobs:  map[string]jobs.Job{"digest": {Schedule: "0 8 * * MON-FRI", Timezone: "Europe/London", Handler: jobs.Func(sendDigest)}},
	}, scheduler.Options{})
	err = s.Run(ctx) // blocks; ctx done = drain; nil after a clean stop
	return err
}

func signUp(ctx context.Context, st *store.Store, tx *sql.Tx) ([]jobs.Enqueued, error) {
	added, err := st.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "mail", Kind: "welcome", Payload: Welcome{7}, IdempotencyKey: "welcome-7"})
	return added, err
}

type Welcome struct{ User int }

var welcomed = make(chan int, 1)

func sendWelcome(ctx context.Context, t jobs.Task, w Welcome) error {
	welcomed <- w.User
	return nil
}

func sendDigest(ctx context.Context, t jobs.Task, _ struct{}) error { return nil }

// The README's program on its database and its lock service: each sign-up is welcomed once.
func TestReadme(t *testing.T) {
	db, err := sql.Open("mysql", servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rdb := redis.NewClient(&redis.Options{Addr: servers.Redis(t)})
	defer rdb.Close()
	st, err := store.New(db, store.MySQL, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.AddPools(t.Context(), map[string]jobs.Pool{"mail": {}}); err != nil {
		t.Fatal(err)
	}
	var last []jobs.Enqueued
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit, (*sql.Tx).Commit} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if last, err = signUp(t.Context(), st, tx); err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- program(ctx, db, rdb) }()
	ended(t, st, last[0].ID)
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := <-welcomed; n != 7 || len(welcomed) > 0 {
		t.Errorf("user %d was welcomed, and %d more", n, len(welcomed))
	}
}
