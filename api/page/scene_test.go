package page_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/page"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// does is a handler made of a function.
type does func(ctx context.Context, t jobs.Task, out io.Writer) error

func (f does) Run(ctx context.Context, t jobs.Task, out io.Writer) error { return f(ctx, t, out) }
func (does) Describe() string                                            { return "test" }
func (does) Identity() string                                            { return "test" }

// scene is a replica with its API, whose listener can be closed and opened again.
type scene struct {
	t       *testing.T
	store   *store.Store
	replica *scheduler.Scheduler
	handler http.Handler
	url     string
	close   func()
}

func newScene(t *testing.T, set jobs.Set, o api.Options) *scene {
	t.Helper()
	return newSceneOf(t, set, o, scheduler.Options{ID: "replica-1", Version: "1.2.3"})
}

func newSceneOf(t *testing.T, set jobs.Set, o api.Options, replica scheduler.Options) *scene {
	t.Helper()
	return newSceneOn(t, "sqlite", filepath.Join(t.TempDir(), "lockstep.db"), set, o, replica)
}

func newSceneOn(t *testing.T, driver, dsn string, set jobs.Set, o api.Options, replica scheduler.Options) *scene {
	t.Helper()
	st, err := store.Open(t.Context(), store.Dialect(driver), dsn, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := scheduler.New(st, nil, set, replica)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	await.Until(t, "the replica is ready", func() bool {
		return !slices.ContainsFunc(r.Health(), func(c wire.Condition) bool { return !c.Ready })
	})
	o.Page = page.Handler()
	s := &scene{t: t, store: st, replica: r, handler: api.New(api.Backend{Store: st, Replica: r}, o)}
	s.open("127.0.0.1:0")
	return s
}

// open serves on address until close, or the end of the test.
func (s *scene) open(address string) {
	s.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, l, s.handler, api.ServeOptions{}) }()
	var closed atomic.Bool
	s.url = "http://" + l.Addr().String() + "/"
	s.close = func() {
		stop()
		if closed.CompareAndSwap(false, true) {
			if err := <-done; err != nil {
				s.t.Error(err)
			}
		}
	}
	s.t.Cleanup(s.close)
}

// run runs a job manually and waits for its end.
func (s *scene) run(name string) jobs.Task {
	s.t.Helper()
	_, task, err := s.replica.RunJob(s.t.Context(), name, "test", "")
	if err != nil {
		s.t.Fatal(err)
	}
	await.Until(s.t, "the run has ended", func() bool {
		got, _, err := s.store.Task(s.t.Context(), task.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		task = got
		return got.State.Ended()
	})
	return task
}

// switchable is a handler that fails on demand.
type switchable struct{ broken atomic.Bool }

func (s *switchable) Run(_ context.Context, t jobs.Task, out io.Writer) error {
	fmt.Fprintln(out, "hello from", t.Job)
	if s.broken.Load() {
		return errors.New("the disk is full")
	}
	return nil
}

func (*switchable) Describe() string { return "switchable" }
