package zklock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestExpiryWhileCutOff(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a, b := open(t, way.addr, "expiry"), open(t, addr, "expiry")
	mine := lockstest.Grant(t, a, "k")
	way.break_(true)

	// No answer is not "held".
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	if still, err := a.Check(ctx, []driver.Held{mine}); err == nil {
		t.Errorf("check without a connection: %v", still)
	}
	if err := lockstest.Renew(ctx, a); err == nil || errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("renew without a connection: %v", err)
	}
	cancel()

	theirs := takes(t, b, "k")
	if theirs.Token <= mine.Token {
		t.Errorf("token %d after %d", theirs.Token, mine.Token)
	}
	select {
	case <-a.Ended():
	case <-time.After(10 * time.Second):
		t.Fatal("Lost was not closed")
	}
	way.set(false, false)
	if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("renew: %v, want ErrSessionEnded", err)
	}
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Errorf("release of what was lost: %v", err)
	}
	if _, err := a.TryAcquire(t.Context(), "late", lockstest.Wants("k2")); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("acquire: %v, want ErrSessionEnded", err)
	}
	lockstest.Holds(t, b, theirs, true)
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("close of what was lost: %v", err)
	}
}

func TestExpiredByTheServer(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a, b := open(t, way.addr, "killed"), open(t, addr, "killed")
	mine := lockstest.Grant(t, a, "k")
	way.break_(true)
	a.keepAlive(t)
	theirs := takes(t, b, "k") // so the server has let go
	// Requests that wait for a connection must not reach the server under another session.
	stale := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := a.Release(ctx, []driver.Held{mine})
		for errors.Is(err, driver.ErrUnreachable) && ctx.Err() == nil { // the library gives up what waits when no server can be dialled
			err = a.Release(ctx, []driver.Held{mine})
		}
		stale <- err
	}()
	way.set(false, false)
	if err := <-stale; err != nil {
		t.Errorf("release: %v", err)
	}
	<-a.Ended()
	lockstest.Holds(t, b, theirs, true)
}

func TestNoDialAfterExpiry(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	tn := newZKSession(ttl, nil)
	conn, err := tn.dialer.dial("tcp", addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tn.event(zk.Event{Type: zk.EventSession, State: zk.StateExpired}) // the library would dial next
	if _, err := tn.dialer.dial("tcp", addr, time.Second); !errors.Is(err, errShut) {
		t.Errorf("dial: %v, want errShut", err)
	}
	if _, err := tn.dialer.dial("tcp", "127.0.0.1:1", time.Second); !errors.Is(err, errShut) { // it is not even tried
		t.Errorf("dial after the end: %v, want errShut", err)
	}
	if !tn.confirmed.Load() {
		t.Error("the server has said that it expired, and that is not known")
	}
	denied := newZKSession(ttl, nil)
	denied.event(zk.Event{Type: zk.EventSession, State: zk.StateAuthFailed})
	if !denied.isOver() || denied.confirmed.Load() {
		t.Error("a session whose login is denied goes on, or counts as ended by a server")
	}
}

// A session that cannot begin leaves nothing behind.
func TestASessionThatDoesNotBeginIsLeft(t *testing.T) {
	t.Parallel()
	s, wrong := newSession(New([]string{"no-port"}, Options{}), driver.Open{}), errors.New("wrong")
	if err := s.begin(t.Context(), ttl, nil); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("without a server: %v", err)
	}
	select {
	case <-s.done:
	default:
		t.Error("without a server it goes on")
	}
	s = newSession(New([]string{servers.ZooKeeper(t)}, Options{}), driver.Open{})
	if err := s.begin(t.Context(), ttl, func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("%v, want %v", err, wrong)
	}
	if err := s.driver.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-s.done:
	default:
		t.Error("its connection is there after the driver's Close")
	}
}

// A failed wait for a session returns the errors of its connections, if there were any.
func TestNoSessionInTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tn := newZKSession(ttl, nil)
	if err := tn.established(ctx); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "%!") {
		t.Errorf("nothing went wrong: %v", err)
	}
	tn.dialer.cause = errors.New("refused")
	if err := tn.established(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, tn.dialer.cause) {
		t.Errorf("%v, want the context's error and its cause", err)
	}
}

// A session that is closed while no server can be reached expires, and Close says so at once.
func TestCloseWhileCutOff(t *testing.T) {
	t.Parallel()
	way := newCut(t, servers.ZooKeeper(t))
	a := openFor(t, way.addr, "closecut", 10*time.Second)
	way.break_(true)
	began := time.Now()
	if err := a.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "ends by itself") || !strings.Contains(err.Error(), way.addr) {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A session that is closed while nothing is answered ends by itself, and its connection at once.
func TestCloseWhileNothingIsAnswered(t *testing.T) {
	t.Parallel()
	way := newCut(t, servers.ZooKeeper(t))
	a := openFor(t, way.addr, "closemute", 30*time.Second)
	on := make(chan struct{})
	defer close(on)
	way.hold(func(uint32) { <-on })
	began := time.Now()
	if err := a.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "ends by itself") {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second { // the library waits for 20 s
		t.Errorf("it took %v", took)
	}
}

// Close of a session that has just lost its connection waits for another one.
func TestConnectedAnew(t *testing.T) {
	t.Parallel()
	way := newCut(t, servers.ZooKeeper(t))
	a := openFor(t, way.addr, "anew", 30*time.Second)
	way.break_(true)
	await.Until(t, "the connection is lost", func() bool { return a.conn.State() != zk.StateHasSession })
	then := make(chan zk.State, 1)
	go func() {
		a.connected(time.Minute)
		then <- a.conn.State()
	}()
	way.set(false, false)
	if state := <-then; state != zk.StateHasSession {
		t.Errorf("%v, want a session", state)
	}
}

// A session that is closed just after it lost its connection waits until it has another one, and frees its keys.
func TestCloseAfterTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a := openFor(t, way.addr, "closeanew", 30*time.Second)
	lockstest.Grant(t, a, "k")
	way.break_(false)
	await.Until(t, "the connection is lost", func() bool { return a.conn.State() != zk.StateHasSession })
	if err := a.Close(t.Context()); err != nil || !a.confirmed.Load() {
		t.Errorf("close: %v; a server has said that nothing is held: %v", err, a.confirmed.Load())
	}
	lockstest.Grant(t, openFor(t, addr, "closeanew", 10*time.Second), "k")
}

// If the connection breaks during the last request the session expires, and Close says so, too.
func TestCloseThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a, b := openFor(t, way.addr, "closelost", 10*time.Second), openFor(t, addr, "closelost", 10*time.Second)
	mine := lockstest.Grant(t, a, "k")
	way.before(closeSession, func() { way.break_(true) })
	if err := a.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "ends by itself") || a.confirmed.Load() {
		t.Errorf("close: %v; a server has said that nothing is held: %v", err, a.confirmed.Load())
	}
	if r := lockstest.Acquire(t, b, "b", "k")[0]; r.Holder == nil || r.Holder.Token != mine.Token {
		t.Errorf("%+v, want it held until the session ends", r)
	}
}

// A session that is closed while it goes from one server to another frees its keys all the same.
func TestCloseWhileItMoves(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	ways := []*cut{newCut(t, addr), newCut(t, addr)}
	d := New([]string{ways[0].addr, ways[1].addr}, Options{})
	opened, err := d.Open(t.Context(), driver.Open{Namespace: "moves", TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	a := opened.(*session)
	lockstest.Grant(t, a, "k")
	moving, on := make(chan struct{}, 10), make(chan struct{})
	for _, way := range ways {
		way.hold(func(uint32) { // it says to the next server which session it is
			moving <- struct{}{}
			<-on
		})
		way.break_(false)
	}
	<-moving
	closed := make(chan error, 1)
	go func() { closed <- a.Close(context.WithoutCancel(t.Context())) }()
	<-a.quit
	close(on)
	if err := <-closed; err != nil || !a.confirmed.Load() {
		t.Errorf("close: %v; a server has said that nothing is held: %v", err, a.confirmed.Load())
	}
	lockstest.Grant(t, openFor(t, addr, "moves", 10*time.Second), "k")
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
	lockstest.Grant(t, a, "k")
	start := time.Now()
	takes(t, b, "k")
	if took := time.Since(start); took > 2*ttl {
		t.Errorf("an owner that asks no more kept its lock for %v", took)
	}
}

// A request for a key of a session that is given up has an unknown outcome, until the servers end the
// session. What it asks for afterwards is not sent.
func TestGivenUpBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	way := newCut(t, servers.ZooKeeper(t))
	a := openFor(t, way.addr, "givenup", 10*time.Second)
	if err := a.Release(t.Context(), []driver.Held{lockstest.Grant(t, a, "k")}); err != nil { // so the container is there
		t.Fatal(err)
	}
	asked := make(chan struct{}, 10)
	way.hold(func(opcode uint32) {
		if opcode == 14 { // several things at once
			asked <- struct{}{}
			<-a.over
		}
	})
	acquire := func() error {
		_, err := a.TryAcquire(t.Context(), "one", lockstest.Wants("k"))
		return err
	}
	answer := make(chan error, 1)
	go func() { answer <- acquire() }()
	<-asked
	a.renewals <- 0 // it was not renewed in time
	if err := <-answer; err == nil || errors.Is(err, driver.ErrSessionEnded) || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("while it was on its way: %v; want unknown", err)
	}
	if err := acquire(); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("afterwards: %v; want that the session is lost", err)
	}
}

func TestLostAnswerLeavesNoHold(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	a, b := openFor(t, way.addr, "leftover", 10*time.Second), openFor(t, addr, "leftover", 10*time.Second)
	if err := a.Release(t.Context(), []driver.Held{lockstest.Grant(t, a, "k")}); err != nil { // so the container is there
		t.Fatal(err)
	}
	way.set(true, true)
	got, err := a.TryAcquire(t.Context(), "one", lockstest.Wants("k"))
	if err == nil || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrSessionEnded) {
		t.Fatalf("acquire with a lost answer: %+v, %v; want unknown", got, err)
	}
	await.Until(t, "the request was carried out", func() bool { r := lockstest.Acquire(t, b, "b", "k")[0]; return r.Holder != nil }) // it was executed
	way.set(false, false)
	var r []driver.Result
	await.Until(t, "it is answered", func() bool { r, err = a.TryAcquire(t.Context(), "one", lockstest.Wants("k")); return err == nil })
	if r[0].Token == 0 {
		t.Fatalf("again: %+v", r[0])
	}
	if err := a.Release(t.Context(), []driver.Held{{Key: "k", Token: r[0].Token}}); err != nil {
		t.Fatal(err)
	}
	lockstest.Grant(t, b, "k")
}

func TestServerRestart(t *testing.T) {
	t.Parallel()
	srv := servers.NewZooKeeper(t)
	a := openFor(t, srv.Addr, "restart", 30*time.Second)
	mine := lockstest.Grant(t, a, "k")
	srv.Kill()
	if _, err := New([]string{srv.Addr}, Options{}).Open(t.Context(), driver.Open{Namespace: "restart", TTL: ttl}); !errors.Is(err, driver.ErrUnreachable) ||
		!strings.Contains(err.Error(), srv.Addr) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("open: %v; want ErrUnreachable with address and cause", err)
	}
	await.Until(t, "a server that is gone is unreachable", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := a.TryAcquire(ctx, rand.Text(), lockstest.Wants("x")) // one that was sent before the end stays unknown
		return errors.Is(err, driver.ErrUnreachable)
	})
	srv.Start()
	await.Until(t, "a renewal gets through", func() bool { return lockstest.Renew(t.Context(), a) == nil })
	lockstest.Holds(t, a, mine, true)
	b := openFor(t, srv.Addr, "restart", 10*time.Second)
	if r := lockstest.Acquire(t, b, "b", "k"); r[0].Holder == nil || r[0].Holder.Token != mine.Token {
		t.Errorf("after a restart: %+v, want busy under %d", r[0], mine.Token)
	}
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Fatal(err)
	}
	if h := lockstest.Grant(t, b, "k"); h.Token <= mine.Token {
		t.Errorf("token %d after %d", h.Token, mine.Token)
	}
}

func TestServerPause(t *testing.T) {
	t.Parallel()
	srv := servers.NewZooKeeper(t)
	a := openFor(t, srv.Addr, "pause", 20*time.Second)
	mine := lockstest.Grant(t, a, "k")
	srv.Pause()
	var start time.Time
	await.Until(t, "the server stands still", func() bool { // the signal takes a moment to reach all threads
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		start = time.Now()
		err := lockstest.Renew(ctx, a)
		if err != nil && (!errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrUnreachable)) {
			t.Fatalf("renew: %v, want the deadline", err)
		}
		return err != nil
	})
	short, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, err := New([]string{srv.Addr}, Options{}).Open(short, driver.Open{Namespace: "pause", TTL: ttl}); err == nil || errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("open: %v, want an error that leaves open what was sent", err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	srv.Continue()
	if err := lockstest.Renew(t.Context(), a); err != nil {
		t.Errorf("renew: %v", err)
	}
	lockstest.Holds(t, a, mine, true)
}

func TestShortTimeoutIsRaisedByTheServer(t *testing.T) {
	t.Parallel()
	s := openFor(t, servers.NewZooKeeper(t).Addr, "short", 900*time.Millisecond)
	if s.TTL() != time.Second { // two ticks of this server
		t.Errorf("ttl %v", s.TTL())
	}
}

// A session that is never renewed ends when the ttl that the server agreed to is over, not the longer one that was asked for.
func TestUnrenewedSessionEndsByTheAgreedTTL(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		conn, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer conn.Close()
		go func() { _, _ = io.Copy(conn, client) }()
		var agreed [12]byte // length, version of the protocol, timeout
		if _, err := io.ReadFull(conn, agreed[:]); err != nil {
			return
		}
		binary.BigEndian.PutUint32(agreed[8:], 1500)
		if _, err := client.Write(agreed[:]); err == nil {
			_, _ = io.Copy(client, conn)
		}
	}()
	s := openFor(t, l.Addr().String(), "agreed", 50*time.Second)
	if s.TTL() != 1500*time.Millisecond {
		t.Fatalf("ttl %v", s.TTL())
	}
	select {
	case <-s.Ended():
	case <-time.After(openLimit - time.Second): // it has as long to open
		t.Error("it goes on")
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
