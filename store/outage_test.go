package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// While the server is unreachable every call returns that, within its timeout; when it is back the same store
// works again.
func TestServerComesBack(t *testing.T) {
	t.Parallel() // it waits
	server := servers.NewMySQL(t)
	dsn := server.DSN("db")
	s := open(t, store.MySQL, dsn, store.Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := s.Sides().Replica.Join(t.Context(), storetest.Member("a"))
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for name, call := range map[string]func() error{
		"beat":    func() error { _, err := s.Sides().Replica.Beat(ctx, session); return err },
		"join":    func() error { _, err := s.Sides().Replica.Join(ctx, storetest.Member("b")); return err },
		"peers":   func() error { _, err := s.Sides().Replica.Peers(ctx); return err },
		"enqueue": func() error { _, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p"}); return err },
	} {
		if err := call(); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "mysql at ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Start()
	if _, err := s.Sides().Replica.Beat(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	storetest.Pools(t, &storetest.Bench{Store: storetest.Of(s)}, session, "p")
	if _, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}); err != nil {
		t.Fatal(err)
	}
}

// A refused connection is no refused statement: while its password is being changed, a store is unavailable, and
// has refused no statement.
func TestARefusedConnectionRefusesNoStatement(t *testing.T) {
	t.Parallel() // it has a server of its own
	server := servers.NewMySQL(t)
	root := openRaw(t, store.MySQL, server.DSN("db"))
	server.Exec("CREATE USER alice@'%' IDENTIFIED BY 'old'", "GRANT ALL ON db.* TO alice@'%'")
	s := open(t, store.MySQL, server.DSNOf("alice", "old", "db"), store.Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := s.Sides().Replica.Join(t.Context(), storetest.Member("a"))
	if err != nil {
		t.Fatal(err)
	}
	cutOff := func() {
		hers, err := root.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE user='alice'")
		if err != nil {
			t.Fatal(err)
		}
		defer hers.Close()
		for hers.Next() {
			var id int64
			if err := hers.Scan(&id); err != nil {
				t.Fatal(err)
			}
			server.Exec(fmt.Sprintf("KILL %d", id))
		}
	}
	server.Exec("ALTER USER alice@'%' IDENTIFIED BY 'new'")
	cutOff()
	if _, err := s.Sides().Replica.Beat(t.Context(), session); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("with the old password: %v", err)
	}
	server.Exec("ALTER USER alice@'%' IDENTIFIED BY 'old'")
	if _, err := s.Sides().Replica.Beat(t.Context(), session); err != nil {
		t.Errorf("with the right one: %v", err)
	}
}
