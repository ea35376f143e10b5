package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// lossy is a proxy before a MySQL server that cuts the line at the next COMMIT: before the server
// hears of it, or after the server did it and before the client hears so.
type lossy struct {
	address string
	cuts    atomic.Int32 // COMMITs still to be cut
	before  atomic.Bool
	lost    atomic.Int32
}

func newLossy(t *testing.T, server string) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{address: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			var mute atomic.Bool
			all.Go(func() { defer client.Close(); p.answers(upstream, client, &mute) })
			all.Go(func() { defer upstream.Close(); p.requests(client, upstream, &mute) })
		}
	})
	return p
}

func (p *lossy) requests(client, upstream net.Conn, mute *atomic.Bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := client.Read(b)
		if err != nil {
			return
		}
		// One packet: length, number, COM_QUERY, text.
		if bytes.Equal(b[4:n], []byte("\x03COMMIT")) && p.cuts.Add(-1) >= 0 {
			p.lost.Add(1)
			mute.Store(true)
			if p.before.Load() {
				_ = client.Close()
				return
			}
		}
		if _, err := upstream.Write(b[:n]); err != nil {
			return
		}
	}
}

func (p *lossy) answers(upstream, client net.Conn, mute *atomic.Bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := upstream.Read(b)
		if err != nil || mute.Load() {
			return
		}
		if _, err := io.Copy(client, bytes.NewReader(b[:n])); err != nil {
			return
		}
	}
}

// behindLossy is a store whose next n COMMITs lose their answer.
func behindLossy(t *testing.T) (*Store, *lossy) {
	t.Helper()
	c, err := mysql.ParseDSN(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	if c.Net != "tcp" {
		t.Fatalf("the server listens on %s", c.Net)
	}
	p := newLossy(t, c.Addr)
	c.Addr = p.address
	return migrated(t, "mysql", c.FormatDSN(), Options{}), p
}

func TestLostAnswerToCommit(t *testing.T) {
	s, p := behindLossy(t)
	for _, before := range []bool{false, true} {
		p.before.Store(before)
		p.cuts.Store(1)
		runs := 0
		err := s.tx(t.Context(), "test", func(t *tx) error {
			runs++
			_, err := t.Exec(`UPDATE {meta} SET value = value + 1 WHERE name = 'config_counter'`)
			return err
		})
		if !errors.Is(err, sqlkit.ErrUnknownCommit) || !errors.Is(err, jobs.ErrUnavailable) || runs != 1 {
			t.Fatalf("cut before the server: %t: %v after %d runs", before, err, runs)
		}
	}
	if n := text(t, s, `SELECT value FROM {meta} WHERE name = 'config_counter'`); n != "1" {
		t.Fatalf("the counter is %s: one of two COMMITs reached the server", n)
	}
}

// A line that breaks before COMMIT was sent has changed nothing: the transaction is repeated.
func TestLostConnectionBeforeCommit(t *testing.T) {
	s, _ := behindLossy(t)
	runs := 0
	err := s.tx(t.Context(), "test", func(t *tx) error {
		if runs++; runs == 1 {
			var id int64
			if _, err := t.One(`SELECT CONNECTION_ID()`, nil, &id); err != nil {
				return err
			}
			if err := s.autocommit(t.Ctx, "kill", func(killer *tx) error { _, err := killer.Exec(`KILL ?`, id); return err }); err != nil {
				return err
			}
		}
		_, err := t.Exec(`UPDATE {meta} SET value = value + 1 WHERE name = 'config_counter'`)
		return err
	})
	if n := text(t, s, `SELECT value FROM {meta} WHERE name = 'config_counter'`); err != nil || runs != 2 || n != "1" {
		t.Fatalf("%v, %d runs, counter %s", err, runs, n)
	}
}

// What the caller sees: the answer was lost, and the store found out what happened.
func TestLostAnswersAreSettled(t *testing.T) {
	s, p := behindLossy(t)
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "boot", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	d := ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "j", Hash: "1", Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }}},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 1}},
	}
	if _, err := s.Sides().Replica.Load(t.Context(), session, d); err != nil {
		t.Fatal(err)
	}
	for _, before := range []bool{false, true} {
		name := map[bool]string{false: "done", true: "not done"}[before]
		settles := func(op string, fn func(ctx context.Context) error) {
			t.Helper()
			p.before.Store(before)
			p.lost.Store(0)
			p.cuts.Store(1)
			if err := fn(t.Context()); err != nil {
				t.Fatalf("%s, %s: %v", op, name, err)
			}
			if p.lost.Load() != 1 {
				t.Fatalf("%s: no COMMIT was cut", op)
			}
			p.cuts.Store(0)
		}
		var joined string
		settles("join", func(ctx context.Context) (err error) {
			joined, err = s.Sides().Replica.Join(ctx, ledger.Member{Replica: name, LockService: "x"})
			return err
		})
		settles("expire", func(ctx context.Context) error {
			expired, err := s.Sides().Replica.Expire(ctx, joined, 0)
			if err == nil && !expired {
				err = errors.New("it was not expired")
			}
			return err
		})
		settles("load", func(ctx context.Context) error { _, err := s.Sides().Replica.Load(ctx, session, d); return err })
		settles("suspend", func(ctx context.Context) error { yes := true; return s.Sides().API.SuspendJob(ctx, "j", "me", &yes) })
		settles("limit", func(ctx context.Context) error {
			return s.Sides().API.LimitPool(ctx, "p", "me", &wire.PoolLimits{MaxRunning: new(5)})
		})
		settles("enqueue", func(ctx context.Context) error {
			all, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p", IdempotencyKey: name})
			if err == nil && (all[0].Existed || all[1].Existed) {
				err = errors.New("a new task is said to have existed")
			}
			return err
		})
	}
	if n := text(t, s, `SELECT COUNT(*) FROM {tasks}`); n != "4" {
		t.Fatalf("4 tasks were enqueued, %s are there", n)
	}
	if n := text(t, s, `SELECT COUNT(*) FROM {sessions} WHERE dead = 0`); n != "1" {
		t.Fatalf("%s live sessions, want 1", n)
	}
}
