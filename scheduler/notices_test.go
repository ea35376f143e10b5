package scheduler_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// unheard is a Locker whose notices get lost.
type unheard struct{ *locks.Locker }

func (unheard) Notify(context.Context, string) error { return errors.New("it got lost") }

// begun is when a replica has begun a task.
type begun struct {
	replica string
	at      time.Time
}

// What one replica does not take at once begins at once in another one, which has its own Store, and room. Where notices get lost
// it begins with the next poll.
func TestAnotherReplicaBeginsAtOnce(t *testing.T) {
	for name, lost := range map[string]bool{"notices": false, "lost notices": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				longest := othersBegin(t, lost)
				switch {
				case !lost && longest > 20*time.Millisecond:
					t.Errorf("a task began %v later", longest)
				case lost && (longest < 20*time.Millisecond || longest > 600*time.Millisecond):
					t.Errorf("no task began more than %v later", longest)
				}
			})
		})
	}
}

// othersBegin runs replicas a and b, and returns how long a task took to begin at most. All are enqueued by the Store of a.
func othersBegin(t *testing.T, lost bool) (longest time.Duration) {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	service := memlock.New()
	began, end := make(chan begun, 10), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	var of []*store.Store
	for _, id := range []string{"a", "b"} {
		st, err := store.New(db, store.SQLite, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		of = append(of, st)
		l, err := locks.New(service, locks.Options{Owner: id})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.WithoutCancel(t.Context()))
		var lk scheduler.Locks = l
		if lost {
			lk = unheard{l}
		}
		h := does(func(context.Context, jobs.Task, io.Writer) error {
			began <- begun{id, time.Now()}
			<-end
			return nil
		})
		set := jobs.Set{Pools: map[string]jobs.Pool{"both": {Handler: h, Workers: 1}}}
		if id == "b" {
			set.Pools["b-alone"] = jobs.Pool{Handler: h, Workers: 1}
		}
		s, err := scheduler.New(st, lk, set, scheduler.Options{ID: id, SessionTTL: time.Minute, MaxClockSkew: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Minute) // so the set of b is the newer one
	}
	for i, c := range []struct {
		what, pool string
		on         []string
	}{
		{"a pool that a lacks", "b-alone", []string{"b"}},
		{"more than a takes", "both", []string{"a", "b"}},
		{"a task when a is full", "both", []string{"b"}},
	} {
		time.Sleep(10*time.Second + time.Duration(i)*111*time.Millisecond)
		if c.what == "a task when a is full" { // b becomes free
			end <- struct{}{}
			end <- struct{}{}
			end <- struct{}{}
			time.Sleep(10 * time.Second)
			if _, err := of[0].Enqueue(t.Context(), jobs.NewTask{Pool: "both"}); err != nil {
				t.Fatal(err)
			}
			if got := <-began; got.replica != "a" {
				t.Fatalf("the replica that is told first is %s", got.replica)
			}
			time.Sleep(10 * time.Second)
		}
		asked := time.Now()
		if _, err := of[0].Enqueue(t.Context(), slices.Repeat([]jobs.NewTask{{Pool: c.pool}}, len(c.on))...); err != nil {
			t.Fatal(err)
		}
		var on []string
		for range c.on {
			got := <-began
			on = append(on, got.replica)
			longest = max(longest, got.at.Sub(asked))
		}
		if slices.Sort(on); !slices.Equal(on, c.on) {
			t.Errorf("%s began on %q, want %q", c.what, on, c.on)
		}
	}
	close(end)
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return longest
}
