package scheduler_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// refuseCurses makes a database refuse tasks that end with an error of a certain kind.
var refuseCurses = map[store.Dialect]string{
	store.SQLite: `CREATE TRIGGER refuse BEFORE INSERT ON lockstep_done WHEN CAST(NEW.error AS TEXT) LIKE 'curse%'
		BEGIN SELECT RAISE(ABORT, 'no curses here'); END`,
	store.MySQL: `CREATE TRIGGER refuse BEFORE INSERT ON lockstep_done FOR EACH ROW
		IF NEW.error LIKE 'curse%' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no curses here'; END IF`,
}

// A result of one handler, however long, and whatever the reason of the database to refuse it, keeps no other task
// from being recorded.
func TestWhatAHandlerSaysHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, open := range []func(*testing.T) database{sqlite, mysql} {
		db := open(t)
		t.Run(db.driver, func(t *testing.T) {
			t.Parallel()
			st := db.open(t)
			raw, err := sql.Open(db.driver, db.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			if _, err := raw.ExecContext(t.Context(), refuseCurses[store.Dialect(db.driver)]); err != nil {
				t.Fatal(err)
			}
			long := strings.Repeat("é", 1<<20)
			says := []string{"curse", long, "fine", "curse", long, "fine"}
			h := does(func(_ context.Context, task jobs.Task, out io.Writer) error {
				var n int
				if _, err := fmt.Sscan(string(task.Payload), &n); err != nil {
					return err
				}
				io.WriteString(out, says[n])
				if n%2 == 1 {
					panic(says[n])
				}
				return errors.New(says[n])
			})
			r := start(t, st, nil, pool(h, func(p *jobs.Pool) { p.Retries = jobs.Retries{Limit: jobs.NoRetries} }), scheduler.Options{ID: "a"})
			enqueue(t, st, r, 0)
			var tasks []jobs.NewTask
			for n := range says {
				tasks = append(tasks, jobs.NewTask{Pool: "p", Payload: n})
			}
			added, err := st.Enqueue(t.Context(), tasks...)
			if err != nil {
				t.Fatal(err)
			}
			r.Wake("p")
			for n, a := range added {
				got := ended(t, st, a.Task.ID)
				if got.State != jobs.StateFailed || got.Attempt != 1 || len(got.Error) > limits.Error {
					t.Errorf("%d: %s after %d attempts, with %d bytes of its error", n, got.State, got.Attempt, len(got.Error))
				}
				refused := says[n] == "curse" && n%2 == 0 // a panic says so before it
				if refused != (got.Error == "") || refused != strings.Contains(got.Reason, "no curses here") {
					t.Errorf("%d: reason %q, error %.40q", n, got.Reason, got.Error)
				}
			}
			if err := r.drain(); err != nil {
				t.Error(err)
			}
		})
	}
}
