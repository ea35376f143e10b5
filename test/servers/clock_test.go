package servers_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var steps = []time.Duration{0, 5 * time.Second, -5 * time.Second, time.Hour, -time.Hour, 0}

// The time of the database follows at once, and it keeps answering.
func TestClockOfMySQL(t *testing.T) {
	t.Parallel()
	s := servers.NewClock(t).NewMySQL(t)
	db, err := sql.Open("mysql", s.DSN("test"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, d := range steps {
		if err := s.Clock.Step(d); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		var ns int64
		if err := db.QueryRow("SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED) * 1000").Scan(&ns); err != nil {
			t.Fatal(err)
		}
		wantBetween(t, before, time.Unix(0, ns).Add(-d), time.Now())
	}
}

// The time that Redis has follows at once, also in scripts.
func TestClockOfRedis(t *testing.T) {
	t.Parallel()
	c := servers.NewClock(t)
	s := c.NewRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	for _, d := range steps {
		if err := c.Step(d); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		got, err := rdb.Eval(t.Context(), "local t = redis.call('TIME'); return t[1] * 1000000 + t[2]", nil).Int64()
		if err != nil {
			t.Fatal(err)
		}
		wantBetween(t, before, time.UnixMicro(got).Add(-d), time.Now())
	}
}

// An ensemble keeps running through steps of its clock, with its sessions: they use monotonic time. The times
// of its nodes are wall time.
func TestClockOfZooKeeper(t *testing.T) {
	t.Parallel()
	e := servers.NewClock(t).NewEnsemble(t)
	conn, events, err := zk.Connect(e.Addrs(), 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for range events {
		}
	}()
	if _, err := conn.Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for _, d := range steps {
		if err := e.Clock.Step(d); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if _, err := conn.Create("/now", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		_, stat, err := conn.Get("/now")
		if err != nil {
			t.Fatal(err)
		}
		wantBetween(t, before, time.UnixMilli(stat.Ctime).Add(-d), time.Now())
		if err := conn.Delete("/now", stat.Version); err != nil {
			t.Fatal(err)
		}
	}
	if there, _, err := conn.Exists("/mine"); err != nil || !there {
		t.Errorf("the session's node: %t, %v", there, err)
	}
}

func wantBetween(t *testing.T, before, at, after time.Time) {
	t.Helper()
	const rough = 5 * time.Millisecond
	if at.Before(before.Add(-rough)) || at.After(after.Add(rough)) {
		t.Errorf("%v is not between %v and %v", at, before, after)
	}
}
