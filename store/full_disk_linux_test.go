package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A disk on which a database cannot grow any more is found before it is needed.
func TestAFullDiskIsFound(t *testing.T) {
	disk, ok := servers.NewDisk(t, 4<<20)
	if !ok {
		t.Log("this user may not mount: nothing to hold")
		return
	}
	path := filepath.Join(disk.Dir, "a.db")
	s := open(t, store.SQLite, path, store.Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	checks := map[string]func() error{
		"the path":   func() error { return sqlite.Check(path) },
		"the rights": func() error { return s.Sides().Admin.CheckRights(t.Context(), false) },
	}
	for name, check := range checks {
		if err := check(); err != nil {
			t.Errorf("%s, while there is room: %v", name, err)
		}
	}
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	for name, check := range checks {
		if err := check(); err == nil || !strings.Contains(err.Error(), "make room on its disk") {
			t.Errorf("%s, on a full disk: %v", name, err)
		}
	}
	if err := errors.Join(s.Close(), disk.Free()); err != nil {
		t.Fatal(err)
	}
}

// A MariaDB with a full disk counts as unavailable: callers may try again, and what was acknowledged is
// there when the disk has room.
func TestServerOnAFullDisk(t *testing.T) {
	t.Parallel() // it waits
	disk, ok := servers.NewDisk(t, 256<<20)
	if !ok {
		t.Log("this user may not mount: nothing to hold")
		return
	}
	server := disk.NewMySQL(t, nil)
	s := open(t, store.MySQL, server.DSN("db"), store.Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := s.Sides().Replica.Join(t.Context(), storetest.Member("a"))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Pools(t, &storetest.Bench{Store: storetest.Of(s)}, session, "p")
	task := jobs.NewTask{Pool: "p", Payload: strings.Repeat("x", 4000)}
	var acknowledged []jobs.Enqueued
	enqueue := func(ctx context.Context) error {
		ids, err := s.Enqueue(ctx, task)
		acknowledged = append(acknowledged, ids...)
		return err
	}
	if err := errors.Join(enqueue(t.Context()), disk.Fill()); err != nil {
		t.Fatal(err)
	}
	for range 2000 { // pages that it has are not lost with the room
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = enqueue(ctx)
		cancel()
		if err != nil {
			break
		}
	}
	if !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("a full disk: %v", err)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if server.PID() == 0 {
		server.Start()
	}
	if err := enqueue(t.Context()); err != nil {
		t.Error(err)
	}
	for _, e := range acknowledged {
		if _, _, err := s.Task(t.Context(), e.Task.ID); err != nil {
			t.Errorf("task %s was acknowledged: %v", e.Task.ID, err)
		}
	}
}
