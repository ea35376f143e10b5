package embedding

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

type Order struct {
	ID   string `gorm:"primaryKey;size:26"`
	Item string
}

func placeWithGorm(ctx context.Context, db *gorm.DB, st *store.Store, order *Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(order).Error; err != nil {
			return err
		}
		_, err := st.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "mail", Kind: "receipt", Payload: order})
		return err
	})
}

func TestGorm(t *testing.T) {
	db, err := gorm.Open(mysql.Open(servers.MySQL(t)), &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()

	st, err := store.New(db, store.MySQL, store.Options{}) // a *gorm.DB is as good as a *sql.DB
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Migrate(t.Context()), db.AutoMigrate(&Order{}), st.AddPools(t.Context(), map[string]jobs.Pool{"mail": {}})); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one breaks the primary key
		err = placeWithGorm(t.Context(), db, st, &Order{"7", "tea"})
	}
	if err == nil {
		t.Error("two orders with one id")
	}
	if n := pending(t, st, "mail"); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func pending(t *testing.T, st *store.Store, pool string) int {
	t.Helper()
	all, err := st.Sides().API.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == pool {
			return p.Pending
		}
	}
	return 0
}

// frontEnd is a program that enqueues and runs nothing.
type frontEnd struct {
	db    *sql.DB
	tasks *store.Store
}

func newFrontEnd(ctx context.Context, db *sql.DB) (*frontEnd, error) {
	tasks, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := tasks.CheckSchema(ctx); err != nil { // the workers migrate; or call Migrate here, too
		return nil, err
	}
	err = tasks.AddPools(ctx, map[string]jobs.Pool{"mail": {}})
	return &frontEnd{db, tasks}, err
}

func wakeWorkers(ctx context.Context, tasks *store.Store, lk *locks.Locker) error {
	waker, err := scheduler.NewWaker(tasks, lk)
	if err != nil {
		return err
	}
	return waker.Run(ctx) // until ctx is done
}

func TestWakeWorkers(t *testing.T) {
	db, _ := database(t)
	front, err := newFrontEnd(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	service := memlock.New()
	client := func() *locks.Locker {
		lk, err := locks.New(service, locks.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lk.Close(context.Background()) })
		return lk
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, told := make(chan error, 2), make(chan string, 1)
	go func() { ended <- wakeWorkers(ctx, front.tasks, client()) }()
	workers := client()
	go func() {
		ended <- workers.Listen(ctx, func(topic string) {
			select {
			case told <- topic:
			default:
			}
		})
	}()
	for heard := false; !heard; {
		if _, err := front.tasks.Enqueue(ctx, jobs.NewTask{Pool: "mail", Payload: Letter{To: "ada"}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-told:
			heard = true
		case <-time.After(100 * time.Millisecond): // they have just begun
		case <-t.Context().Done():
			t.Fatal("the workers were not told")
		}
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestFrontEnd(t *testing.T) {
	db, _ := database(t)
	front, err := newFrontEnd(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	added, err := front.tasks.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "mail", Payload: Letter{To: "ada"}})
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	// The workers come later, as another program.
	workers, err := scheduler.New(front.tasks, nil, jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Handler: jobs.Func(func(context.Context, jobs.Task, Letter) error { return nil })},
	}}, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, workers)
	if task := ended(t, front.tasks, added[0].ID); task.State != jobs.StateSucceeded {
		t.Errorf("%+v", task)
	}
}
