package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

func believe(now time.Time) (time.Time, error) { return now, nil }

func none(time.Time, []ledger.JobState) []ledger.Decision { return nil }

// A store whose file, or its log, was deleted or replaced answers nothing and takes nothing: a process that opens the name later
// would not find it. Once the file is back the store goes on.
func TestNothingIsTakenForAFileThatIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		suffix, put string
		link        bool // it was opened by one
	}{
		"deleted": {}, "replaced": {put: "another"}, "its log deleted": {suffix: "-wal"}, "its log replaced": {suffix: "-wal", put: "another"},
		"its log deleted, behind a link": {suffix: "-wal", link: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "lockstep.db")
			opened := path
			if c.link {
				opened = filepath.Join(t.TempDir(), "lockstep.db")
				if err := os.Symlink(path, opened); err != nil {
					t.Fatal(err)
				}
			}
			st, err := store.Open(t.Context(), "sqlite", opened, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			if err := st.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			session, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "a"})
			if err != nil {
				t.Fatal(err)
			}
			calls := map[string]func() error{
				"beat":    func() error { _, err := st.Sides().Replica.Beat(t.Context(), session); return err },
				"enqueue": func() error { _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "default"}); return err },
				"decide": func() error {
					_, err := st.Sides().Replica.Decide(t.Context(), ledger.Decide{
						Admission: ledger.Admission{Session: session},
						Now:       believe,
						Decide:    none,
					})
					return err
				},
				"claim": func() error {
					_, err := st.Sides().Replica.Claim(t.Context(), ledger.Claim{
						Admission: ledger.Admission{Session: session, Pools: map[string]ledger.Share{"default": {Room: 1}}},
						Now:       believe,
						Pool:      "default",
					})
					return err
				},
				"overview": func() error { _, err := st.Sides().API.Overview(t.Context(), 10); return err },
			}
			for op, call := range calls {
				if err := call(); errors.Is(err, jobs.ErrUnavailable) {
					t.Fatalf("%s: %v", op, err)
				}
			}
			victim := path + c.suffix
			if err := os.Rename(victim, victim+".away"); err != nil {
				t.Fatal(err)
			}
			if c.put != "" {
				if err := os.WriteFile(victim, []byte(c.put), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for op, call := range calls {
				if err := call(); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), victim+" was deleted or replaced") ||
					!strings.Contains(err.Error(), "remove lockstep.db-wal and lockstep.db-shm") {
					t.Errorf("%s: %v", op, err)
				}
			}
			if err := os.Rename(victim+".away", victim); err != nil {
				t.Fatal(err)
			}
			for op, call := range calls {
				if err := call(); errors.Is(err, jobs.ErrUnavailable) {
					t.Errorf("%s, once it is back: %v", op, err)
				}
			}
		})
	}
}

// A log that was replaced before the first call of the store is detected, too; and a read-only store returns the same error.
func TestALogThatIsReplacedAtOnceIsNoticed(t *testing.T) {
	for how, open := range map[string]func(context.Context, string) (*store.Store, error){"to work": toWork, "to read": toRead} {
		path, _, _ := crashed(t)
		st, err := open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		replace(t, path+"-wal", []byte("another"))
		if _, err := st.Sides().Replica.Peers(t.Context()); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), path+"-wal was deleted or replaced") {
			t.Errorf("opened %s: %v", how, err)
		}
	}
}

// What was committed after the file was deleted is not acknowledged.
func TestACommitToAFileThatIsGoneIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lockstep.db")
	st, err := store.Open(t.Context(), "sqlite", path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	removes := ledger.Decide{
		Admission: ledger.Admission{Session: session},
		Now:       believe,
		Jobs:      []string{},
		Decide: func(time.Time, []ledger.JobState) []ledger.Decision {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
			return nil
		},
	}
	if _, err := st.Sides().Replica.Decide(t.Context(), removes); !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("a decision whose file was deleted in its middle: %v", err)
	}
}
