package pools

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

type payment struct{ Account, Cents int }

type bank struct{ db *sql.DB }

// pay has the key and the effect in one transaction: a second attempt finds the key.
func (b *bank) pay(ctx context.Context, t jobs.Task, p payment) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	result, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO paid (task) VALUES (?)", t.IdempotencyKey) // INSERT IGNORE on MySQL
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err // paid before
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents + ? WHERE id = ?", p.Cents, p.Account); err != nil {
		return err
	}
	return tx.Commit()
}

type report struct {
	Name string
	Body string
}

var errStale = errors.New("a later attempt has written")

// publish writes what a later attempt may write again, and never over it.
func (b *bank) publish(ctx context.Context, t jobs.Task, r report) error {
	result, err := b.db.ExecContext(ctx, "UPDATE reports SET body = ?, token = ? WHERE name = ? AND token <= ?", r.Body, t.Token, r.Name, t.Token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, jobs.Permanent(errStale))
	}
	return nil
}

// Each pays once, however often it is attempted, and an attempt that goes on after a later one has written changes nothing.
func TestOnce(t *testing.T) {
	db, st := database(t)
	for _, statement := range []string{
		"CREATE TABLE paid (task TEXT PRIMARY KEY)", "CREATE TABLE accounts (id INTEGER PRIMARY KEY, cents INTEGER)", "INSERT INTO accounts VALUES (1, 0)",
		"CREATE TABLE reports (name TEXT PRIMARY KEY, body TEXT, token INTEGER)", "INSERT INTO reports VALUES ('may', '', 0)",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	b := &bank{db}
	var attempts []jobs.Task
	set := jobs.Set{Pools: map[string]jobs.Pool{
		"payments": {Retries: jobs.Retries{Limit: 3, Backoff: 1}, Handler: jobs.Func(func(ctx context.Context, task jobs.Task, p payment) error {
			attempts = append(attempts, task)
			if err := b.pay(ctx, task, p); err != nil || task.Attempt == 3 {
				return err
			}
			return errors.New("the answer is lost") // after the effect
		})},
	}}
	ids := enqueue(t, st, jobs.NewTask{Pool: "payments", Payload: payment{1, 500}})
	stop := replica(t, st, set, scheduler.Options{})
	task := ended(t, st, ids[0])
	stop()
	var cents int
	if err := db.QueryRow("SELECT cents FROM accounts").Scan(&cents); err != nil || cents != 500 || len(attempts) != 3 || task.State != jobs.StateSucceeded {
		t.Errorf("%d cents after %d attempts, %s: %v", cents, len(attempts), task.State, err)
	}

	first, last := attempts[0], attempts[2]
	err := b.publish(t.Context(), last, report{"may", "new"})
	stale := b.publish(t.Context(), first, report{"may", "old"})
	var body string
	if scan := db.QueryRow("SELECT body FROM reports").Scan(&body); err != nil || scan != nil || !errors.Is(stale, errStale) || body != "new" {
		t.Errorf("%q: %v, %v, %v", body, err, scan, stale)
	}
}
