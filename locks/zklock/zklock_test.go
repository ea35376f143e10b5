package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they work
	os.Exit(servers.Main(m))
}

const ttl = 3 * time.Second

// until waits for a condition.
func until(t *testing.T, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true")
		}
	}
}

func open(t *testing.T, addr, namespace string) *session {
	t.Helper()
	return openFor(t, addr, namespace, ttl)
}

func openFor(t *testing.T, addr, namespace string, ttl time.Duration) *session {
	t.Helper()
	s, err := New([]string{addr}, Options{}).Open(t.Context(), driver.Open{Namespace: namespace, TTL: ttl, Owner: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s.(*session)
}

func wants(keys ...string) (w []driver.Want) {
	for _, k := range keys {
		w = append(w, driver.Want{Key: k, Meta: "for " + k})
	}
	return w
}

func acquire(t *testing.T, s driver.Session, id string, keys ...string) []driver.Result {
	t.Helper()
	got, err := s.TryAcquire(t.Context(), id, wants(keys...))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func grant(t *testing.T, s driver.Session, key string) driver.Held {
	t.Helper()
	got := acquire(t, s, "id-"+key, key)
	if got[0].Token == 0 {
		t.Fatalf("%s was not granted: %+v", key, got[0])
	}
	return driver.Held{Key: key, Token: got[0].Token}
}

func holds(t *testing.T, s driver.Session, h driver.Held, want bool) {
	t.Helper()
	still, err := s.Check(t.Context(), []driver.Held{h})
	if err != nil {
		t.Fatal(err)
	}
	if still[0] != want {
		t.Errorf("%s still held under %d: %t, want %t", h.Key, h.Token, still[0], want)
	}
}

// takes tries until key is granted to s, which stays alive meanwhile.
func takes(t *testing.T, s driver.Session, key string) driver.Held {
	t.Helper()
	var h driver.Held
	until(t, func() bool {
		if err := s.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		h = driver.Held{Key: key, Token: acquire(t, s, "takes", key)[0].Token}
		return h.Token > 0
	})
	return h
}

// passwords are those of the sessions that began behind a cut: session id -> []byte.
var passwords sync.Map

// cut is a way to a server that can be cut.
type cut struct {
	addr string

	mu    sync.Mutex
	deaf  bool // what the server answers is thrown away, and then the connection
	dead  bool // no connection is accepted
	conns []net.Conn
}

func newCut(t *testing.T, server string) *cut {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cut{addr: l.Addr().String()}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", server)
			if err != nil || !c.admit(client, behind) {
				_ = client.Close()
				continue
			}
			pumps.Go(func() { c.pump(behind, client, false) })
			pumps.Go(func() { c.pump(client, behind, true) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); c.break_(true); pumps.Wait() })
	return c
}

func (c *cut) admit(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		for _, conn := range conns {
			_ = conn.Close()
		}
		return false
	}
	c.conns = append(c.conns, conns...)
	return true
}

func (c *cut) pump(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	var head []byte // the server's first answer
	for {
		n, err := from.Read(buf)
		if lack := 41 - len(head); answers && lack > 0 {
			if head = append(head, buf[:min(n, lack)]...); len(head) == 41 {
				passwords.Store(int64(binary.BigEndian.Uint64(head[12:])), head[24:40])
			}
		}
		c.mu.Lock()
		deaf := c.deaf && answers && n > 0
		c.mu.Unlock()
		if deaf || err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (c *cut) set(deaf, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf, c.dead = deaf, dead
}

// break_ cuts all connections; no new ones are accepted if dead.
func (c *cut) break_(dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = dead
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// operator is a plain client.
func operator(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}

func TestBatch(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	a, b := openFor(t, addr, "batch", 20*time.Second), openFor(t, addr, "batch", 20*time.Second)
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("k/%03d", i))
	}
	first := acquire(t, b, "b", keys[:50]...)
	got := acquire(t, a, "a", keys...)
	var held []driver.Held
	for i, r := range got {
		switch {
		case i < 50 && (r.Holder == nil || r.Holder.Session != b.ID() || r.Holder.Token != first[i].Token || r.Holder.Key != keys[i]):
			t.Fatalf("%s: %+v, want busy by b", keys[i], r)
		case i >= 50 && r.Token == 0:
			t.Fatalf("%s: %+v, want granted", keys[i], r)
		case i >= 50:
			held = append(held, driver.Held{Key: keys[i], Token: r.Token})
		}
	}
	if diff := cmp.Diff(got[50:], acquire(t, a, "a", keys[50:]...)); diff != "" {
		t.Errorf("the same acquisition again: %s", diff)
	}
	if again := acquire(t, a, "other", keys[60]); again[0].Holder == nil {
		t.Errorf("another acquisition of the same session: %+v, want busy", again[0])
	}
	still, err := a.Check(t.Context(), held)
	if err != nil || len(still) != 150 {
		t.Fatal(err)
	}
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	for i, r := range acquire(t, b, "b2", keys[50:]...) {
		if r.Token <= held[i].Token {
			t.Fatalf("%s: %+v after token %d", held[i].Key, r, held[i].Token)
		}
	}
	if err := a.Release(t.Context(), held); err != nil { // long not ours any more
		t.Fatal(err)
	}
	holds(t, b, driver.Held{Key: keys[0], Token: first[0].Token}, true)
	if r := acquire(t, a, "a2", keys[100]); r[0].Holder == nil {
		t.Errorf("a release freed what somebody else holds: %+v", r[0])
	}
}

func TestExpiryWhileCutOff(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a, b := open(t, way.addr, "expiry"), open(t, addr, "expiry")
	mine := grant(t, a, "k")
	way.break_(true)

	// No answer is not "held".
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	if still, err := a.Check(ctx, []driver.Held{mine}); err == nil {
		t.Errorf("check without a connection: %v", still)
	}
	if err := a.Renew(ctx); err == nil || errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("renew without a connection: %v", err)
	}
	cancel()

	theirs := takes(t, b, "k")
	if theirs.Token <= mine.Token {
		t.Errorf("token %d after %d", theirs.Token, mine.Token)
	}
	select {
	case <-a.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("Lost was not closed")
	}
	way.set(false, false)
	if err := a.Renew(t.Context()); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("renew: %v, want ErrSessionLost", err)
	}
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Errorf("release of what was lost: %v", err)
	}
	if _, err := a.TryAcquire(t.Context(), "late", wants("k2")); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("acquire: %v, want ErrSessionLost", err)
	}
	holds(t, b, theirs, true)
}

func TestExpiredByTheServer(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a, b := open(t, way.addr, "killed"), open(t, addr, "killed")
	mine := grant(t, a, "k")
	way.break_(true)
	a.keepAlive(t)
	theirs := takes(t, b, "k") // so the server has let go
	// Requests that wait for a connection must not reach the server under another session.
	stale := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stale <- a.Release(ctx, []driver.Held{mine})
	}()
	way.set(false, false)
	if err := <-stale; err != nil {
		t.Errorf("release: %v", err)
	}
	<-a.Lost()
	holds(t, b, theirs, true)
}

func TestNobodyDialsAfterExpiry(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	tn := newTenure(ttl)
	tn.gate.hosts = func() int { return 1 }
	conn, err := tn.gate.dial("tcp", addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tn.event(zk.Event{Type: zk.EventSession, State: zk.StateExpired}) // the library would dial next
	if _, err := tn.gate.dial("tcp", addr, time.Second); !errors.Is(err, errShut) {
		t.Errorf("dial: %v, want errShut", err)
	}
}

// keepAlive makes a session that is not renewed wait for the server's word.
func (s *session) keepAlive(t *testing.T) {
	t.Helper()
	select {
	case s.renewals <- time.Minute:
	case <-s.done:
		t.Fatal("the session ended by itself first")
	}
}

func TestUnrenewedSessionEnds(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	a, b := open(t, addr, "idle"), open(t, addr, "idle")
	grant(t, a, "k")
	start := time.Now()
	takes(t, b, "k")
	if took := time.Since(start); took > 2*ttl {
		t.Errorf("an owner that asks no more kept its lock for %v", took)
	}
}

func TestLostAnswerLeavesNoGhost(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a, b := openFor(t, way.addr, "ghost", 10*time.Second), openFor(t, addr, "ghost", 10*time.Second)
	if err := a.Release(t.Context(), []driver.Held{grant(t, a, "k")}); err != nil { // so the container is there
		t.Fatal(err)
	}
	way.set(true, true)
	got, err := a.TryAcquire(t.Context(), "one", wants("k"))
	if err == nil || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrSessionLost) {
		t.Fatalf("acquire with a lost answer: %+v, %v; want unknown", got, err)
	}
	until(t, func() bool { r := acquire(t, b, "b", "k")[0]; return r.Holder != nil }) // it was executed
	way.set(false, false)
	var r []driver.Result
	until(t, func() bool { r, err = a.TryAcquire(t.Context(), "one", wants("k")); return err == nil })
	if r[0].Token == 0 {
		t.Fatalf("again: %+v", r[0])
	}
	if err := a.Release(t.Context(), []driver.Held{{Key: "k", Token: r[0].Token}}); err != nil {
		t.Fatal(err)
	}
	grant(t, b, "k")
}

func TestServerRestart(t *testing.T) {
	t.Parallel()
	srv := servers.NewZooKeeper(t)
	a := openFor(t, srv.Addr, "restart", 30*time.Second)
	mine := grant(t, a, "k")
	srv.Kill()
	if _, err := New([]string{srv.Addr}, Options{}).Open(t.Context(), driver.Open{Namespace: "restart", TTL: ttl}); !errors.Is(err, driver.ErrUnreachable) ||
		!strings.Contains(err.Error(), srv.Addr) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("open: %v; want ErrUnreachable with address and cause", err)
	}
	until(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := a.TryAcquire(ctx, "x", wants("x"))
		return errors.Is(err, driver.ErrUnreachable)
	})
	srv.Start()
	until(t, func() bool { return a.Renew(t.Context()) == nil })
	holds(t, a, mine, true)
	b := openFor(t, srv.Addr, "restart", 10*time.Second)
	if r := acquire(t, b, "b", "k"); r[0].Holder == nil || r[0].Holder.Token != mine.Token {
		t.Errorf("after a restart: %+v, want busy under %d", r[0], mine.Token)
	}
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Fatal(err)
	}
	if h := grant(t, b, "k"); h.Token <= mine.Token {
		t.Errorf("token %d after %d", h.Token, mine.Token)
	}
}

func TestServerPause(t *testing.T) {
	t.Parallel()
	srv := servers.NewZooKeeper(t)
	a := openFor(t, srv.Addr, "pause", 20*time.Second)
	mine := grant(t, a, "k")
	srv.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := a.Renew(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("renew: %v, want the deadline", err)
	}
	short, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, err := New([]string{srv.Addr}, Options{}).Open(short, driver.Open{Namespace: "pause", TTL: ttl}); err == nil || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("open: %v, want an error that leaves open what was sent", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	srv.Continue()
	if err := a.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	holds(t, a, mine, true)
}

func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	op := operator(t, addr)
	a, b := openFor(t, addr, "by-hand", 10*time.Second), openFor(t, addr, "by-hand", 10*time.Second)
	mine := grant(t, a, "k")
	if err := op.Delete("/lockstep/by-hand/locks/k/held", -1); err != nil {
		t.Fatal(err)
	}
	holds(t, a, mine, false)
	theirs := grant(t, b, "k")
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Fatal(err)
	}
	holds(t, b, theirs, true)
	if ok, err := a.Evict(t.Context(), "k", mine.Token); ok || err != nil {
		t.Errorf("evict under an old token: %t, %v", ok, err)
	}
	if ok, err := a.Evict(t.Context(), "k", theirs.Token); !ok || err != nil {
		t.Errorf("evict: %t, %v", ok, err)
	}
	holds(t, b, theirs, false)
	// The whole tree.
	for _, path := range []string{"locks/k", "locks", "sessions/" + a.ID(), "sessions/" + b.ID(), "sessions", ""} {
		path = strings.TrimRight("/lockstep/by-hand/"+path, "/")
		if err := op.Delete(path, -1); err != nil {
			t.Fatalf("delete %s: %v", path, err)
		}
	}
	if err := a.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	if h := grant(t, a, "k"); h.Token <= theirs.Token {
		t.Errorf("token %d after %d", h.Token, theirs.Token)
	}
}

func TestListAndNames(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	a := openFor(t, addr, "list/x", 10*time.Second)
	keys := []string{"%", "%2F", ".", "..", "a", "a%2Fb", "a/", "a/1", "a/2", "a/3", "b"}
	got := acquire(t, a, "a", keys...)
	if err := a.Release(t.Context(), []driver.Held{{Key: "a/2", Token: got[8].Token}}); err != nil {
		t.Fatal(err)
	}
	list := func(prefix string, limit int) (listed []string) {
		for after := ""; ; {
			page, err := a.List(t.Context(), prefix, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range page {
				if info.Owner != "tester" || info.Meta != "for "+info.Key || info.Session != a.ID() || time.Since(info.Since).Abs() > time.Minute {
					t.Errorf("info: %+v", info)
				}
				listed, after = append(listed, info.Key), info.Key
			}
			if len(page) < limit {
				return listed
			}
		}
	}
	if diff := cmp.Diff([]string{"%", "%2F", ".", "..", "a", "a%2Fb", "a/", "a/1", "a/3", "b"}, list("", 3)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a/", "a/1", "a/3"}, list("a/", 1)); diff != "" {
		t.Error(diff)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	op := operator(t, addr)
	a := openFor(t, addr, "close", 10*time.Second)
	if a.TTL() != 10*time.Second {
		t.Errorf("ttl %v", a.TTL())
	}
	mine := grant(t, a, "k")
	start := time.Now()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Errorf("took %v", took)
	}
	if there, _, err := op.Exists("/lockstep/close/locks/k/held"); there || err != nil {
		t.Errorf("still there after Close: %t, %v", there, err)
	}
	if _, err := a.Check(t.Context(), []driver.Held{mine}); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("check: %v, want ErrSessionLost", err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestShortTimeoutIsRaisedByTheServer(t *testing.T) {
	t.Parallel()
	s := openFor(t, servers.NewZooKeeper(t).Addr, "short", 10*time.Millisecond)
	if s.TTL() != time.Second { // two ticks of this server
		t.Errorf("ttl %v", s.TTL())
	}
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = New([]string{l.Addr().String()}, Options{}).Open(ctx, driver.Open{Namespace: "silent", TTL: ttl})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("open: %v; want the deadline and the address", err)
	}
}
