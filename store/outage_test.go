package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// While the server is away every call says so, within its time; when it is back the same store
// works again.
func TestServerComesBack(t *testing.T) {
	t.Parallel() // it waits
	server := servers.NewMySQL(t)
	dsn := server.DSN("db")
	s := open(t, store.MySQL, dsn, store.Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := s.Join(t.Context(), storetest.Member("a"))
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for name, call := range map[string]func() error{
		"beat":    func() error { _, err := s.Beat(ctx, session); return err },
		"join":    func() error { _, err := s.Join(ctx, storetest.Member("b")); return err },
		"peers":   func() error { _, err := s.Peers(ctx); return err },
		"enqueue": func() error { _, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p"}); return err },
	} {
		if err := call(); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "mysql at ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Start()
	if _, err := s.Beat(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	storetest.Pools(t, &storetest.Bench{Store: s}, session, "p")
	if _, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}); err != nil {
		t.Fatal(err)
	}
}
