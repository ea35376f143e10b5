// Embed is a shop with background work: a receipt after each order, and a report by a cron job. Orders and tasks are in
// one database, so that an order and its receipt are committed together, or not at all.
//
//	go run ./examples/embed
//	go run ./examples/embed -mysql 'user:password@tcp(127.0.0.1:3306)/shop'
//
// Without -mysql it creates the SQLite file shop.db. Start it several times: the processes share the work.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

func main() {
	dsn := flag.String("mysql", "", "`DSN` of a MySQL or MariaDB database; without it, SQLite in the file shop.db")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	db, dialect, err := open(*dsn)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, db, dialect); err != nil {
		log.Fatal(err)
	}
}

// open opens the shop's database. On MySQL any DSN works.
func open(dsn string) (*sql.DB, store.Dialect, error) {
	if dsn != "" {
		db, err := sql.Open("mysql", dsn)
		return db, store.MySQL, err
	}
	db, err := sql.Open("sqlite", "file:shop.db?_txlock=immediate"+
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	return db, store.SQLite, err
}

// run opens the shop until ctx is done.
func run(ctx context.Context, db *sql.DB, dialect store.Dialect) error {
	defer db.Close()
	tasks, err := store.New(db, dialect, store.Options{})
	if err != nil {
		return err
	}
	if err := tasks.Migrate(ctx); err != nil {
		return err
	}
	shop := &Shop{db, tasks}
	if err := shop.migrate(ctx); err != nil {
		return err
	}

	work := jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {
			Workers: 4,
			Kinds:   jobs.Kinds(receipts.Handle(shop.sendReceipt)),
		}},
		Jobs: map[string]jobs.Job{"report": {
			Schedule: "@every 2s", // or "0 8 * * MON-FRI", with a Timezone
			Handler:  jobs.Func(shop.report),
		}},
	}
	if err := tasks.AddPools(ctx, work.Pools); err != nil { // so that orders work before the first replica has started
		return err
	}
	replica, err := scheduler.New(tasks, nil, work, scheduler.Options{}) // nil: the database is the lock service, too
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- replica.Run(ctx) }()

	if err := shop.order(ctx, "tea", declined); err != nil {
		fmt.Println(err)
	}
	if err := shop.order(ctx, "coffee", paid); err != nil {
		fmt.Println(err)
	}
	replica.Wake("mail") // optional: without it the task waits for the next poll
	return <-stopped     // after ctx is done: running tasks have ended, others are released
}

// Shop is the program that the scheduler is embedded in.
type Shop struct {
	db    *sql.DB
	tasks *store.Store
}

// order writes an order, enqueues its receipt, and takes the money, in one transaction.
func (s *Shop) order(ctx context.Context, item string, pay func() error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing happens after the commit

	id := rand.Text()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, item) VALUES (?, ?)", id, item); err != nil {
		return err
	}
	if _, err := s.tasks.EnqueueTx(ctx, tx, receipts.New(Receipt{id, item})); err != nil {
		return err
	}
	if err := pay(); err != nil {
		return fmt.Errorf("no %s: %w", item, err) // the rollback includes the order and its receipt
	}
	return tx.Commit()
}

// Receipt is a task's payload: anything that JSON can carry.
type Receipt struct{ Order, Item string }

// receipts defines pool, kind and payload, for enqueuing and for the handler.
var receipts = jobs.NewKind[Receipt]("mail", "receipt")

// sendReceipt is the handler of the pool's tasks. A failed or lost attempt is retried with the same t.IdempotencyKey,
// by which its receiver can recognize it.
func (s *Shop) sendReceipt(ctx context.Context, t jobs.Task, r Receipt) error {
	fmt.Printf("receipt for order %s: one %s\n", r.Order, r.Item)
	return nil
}

// report is the cron job; it runs in one replica.
func (s *Shop) report(ctx context.Context, t jobs.Task, _ struct{}) error {
	var n int
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders").Scan(&n); err != nil {
		return err
	}
	fmt.Printf("report of %s, orders: %d\n", t.ScheduledAt.Format(time.TimeOnly), n)
	return nil
}

func (s *Shop) migrate(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id VARCHAR(26) PRIMARY KEY, item VARCHAR(100) NOT NULL)")
	return err
}

func declined() error { return errors.New("the card was declined") }

func paid() error { return nil }
