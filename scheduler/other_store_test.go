package scheduler_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Replicas of two stores whose locks have the same names make each other wait, and log that once. Replicas of one store, or
// with a namespace each, log nothing.
func TestStoresThatShareTheNamesOfLocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		oneStore  bool
		namespace string // of the second
		warned    bool
	}{
		"two stores, one namespace":    {false, "lockstep", true},
		"two stores, a namespace each": {false, "another", false},
		"one store":                    {true, "lockstep", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := memlock.New()
			first, second := sqlite(t), sqlite(t)
			if c.oneStore {
				second = first
			}
			log := &heard{}
			ran := map[string]*starts{"a": {}, "b": {}}
			for id, db := range map[string]database{"a": first, "b": second} {
				namespace := "lockstep"
				if id == "b" {
					namespace = c.namespace
				}
				lk, err := locks.New(service, locks.Options{Namespace: namespace})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = lk.Close(context.Background()) })
				start(t, db.open(t), lk, every(ran[id]), scheduler.Options{ID: id, SessionTTL: time.Second, LockService: "memory",
					Logger: slog.New(slog.NewTextHandler(log, nil))})
			}
			const says = "a replica of another store has locks of the same names"
			said := func() int { return strings.Count(log.String(), says) }
			if c.warned {
				await.Until(t, "one of them says so", func() bool { return said() > 0 })
			}
			// Due times are decided all the same, one after the other.
			await.Until(t, "both work", func() bool { return ran["a"].count() > 2 && (c.oneStore || ran["b"].count() > 2) })
			if n := said(); (n > 0) != c.warned || n > 2 {
				t.Errorf("said %d times:\n%s", n, log)
			}
		})
	}
}

// heard is a log that may be read while it is written.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(line)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func every(ran *starts) jobs.Set {
	return jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: does(func(ctx context.Context, task jobs.Task, out io.Writer) error {
		return ran.Run(ctx, task, out)
	})}}}
}

func TestStripeHolder(t *testing.T) {
	for meta, want := range map[string][2]string{
		"a of store 7f":           {"a", "7f"},
		"b of store c of store d": {"b of store c", "d"},
		"older":                   {"older", ""},
		" of store 7f":            {"", "7f"},
		"":                        {"", ""},
	} {
		if replica, store := scheduler.StripeHolder(meta); [2]string{replica, store} != want {
			t.Errorf("%q: %q, %q", meta, replica, store)
		}
	}
}
