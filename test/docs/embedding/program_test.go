package embedding

import (
	"context"
	"database/sql"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
	"github.com/lockstep-scheduler/lockstep/store"
)

func fromFile(file string, report jobs.Handler) (jobs.Set, error) {
	c, err := config.Load(file, config.Options{
		Environ: os.Environ(),
		Funcs:   map[string]jobs.Handler{"report": report}, // what "func: report" means in the file
	})
	if err != nil {
		return jobs.Set{}, err // all that is wrong with it, each with line and column
	}
	return c.Set, nil
}

func TestFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	text := "version: 1\njobs:\n  report: {schedule: \"0 8 * * *\", timezone: Europe/London, func: report}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var got time.Time
	work, err := fromFile(file, jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error {
		got = t.ScheduledAt
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2030, 7, 1, 7, 0, 0, 0, time.UTC)
	if schedulertest.New(t, work, schedulertest.Options{}).FireAt("report", at); !got.Equal(at) {
		t.Errorf("it ran for %v", got)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, "func: report", "func: reprot", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fromFile(file, nil); err == nil || !strings.Contains(err.Error(), "lockstep.yaml:3:") {
		t.Errorf("a function that is not there: %v", err)
	}
}

func runUntilSignal(replica *scheduler.Scheduler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, as ever
	return replica.Run(ctx)
}

func TestRunUntilSignal(t *testing.T) {
	_, st := database(t)
	replica, err := scheduler.New(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"work": {}}}, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- runUntilSignal(replica) }()
	waitFor(t, st, "work")
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// schema is what a migration tool of the program's own applies.
func schema() (string, error) {
	return store.MigrationSQL(store.SQLite, "lockstep_") // or store.MySQL
}

func TestSchema(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "own.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	st, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.CheckSchema(t.Context()); err == nil {
		t.Error("an empty database passed")
	}
	text, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	if err := st.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}
