package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Requests, by their number in the protocol.
const (
	createNode      = 1
	exists          = 3
	getData         = 4
	setData         = 5
	multi           = 14
	createContainer = 19
	ping            = 11
	logsIn          = 100
	closeSession    = 1<<32 - 11
)

// between opens a session whose requests the test sees before they are passed on, and one beside it.
func between(t *testing.T, namespace string) (a, b *session, op *zk.Conn, way *cut) {
	t.Helper()
	addr := servers.ZooKeeper(t)
	way = newCut(t, addr)
	return openFor(t, way.addr, namespace, 10*time.Second), openFor(t, addr, namespace, 10*time.Second), operator(t, addr), way
}

// before calls do before the first request of a kind is passed on.
func (c *cut) before(opcode uint32, do func()) {
	once := sync.OnceFunc(do)
	c.hold(func(passing uint32) {
		if passing == opcode {
			once()
		}
	})
}

// lets releases a key, from any goroutine.
func lets(t *testing.T, s *session, h driver.Held) {
	if err := s.Release(context.WithoutCancel(t.Context()), []driver.Held{h}); err != nil {
		t.Error(err)
	}
}

// A batch has an error of its own only if nothing is known of any key.
func TestVerdict(t *testing.T) {
	t.Parallel()
	answerLost, unsent := driver.Result{Err: errors.New("reset")}, driver.Result{Err: fmt.Errorf("away: %w", driver.ErrUnreachable)}
	over := driver.Result{Err: fmt.Errorf("over: %w", driver.ErrSessionEnded)}
	granted, busy := driver.Result{Token: 1}, driver.Result{Holder: &driver.Info{Key: "k"}}
	for name, c := range map[string]struct {
		results []driver.Result
		want    error
	}{
		"nothing was asked for":             {nil, nil},
		"granted beside a lost answer":      {[]driver.Result{granted, answerLost}, nil},
		"busy beside what was not sent":     {[]driver.Result{unsent, busy}, nil},
		"one answer lost":                   {[]driver.Result{answerLost}, answerLost.Err},
		"one not sent":                      {[]driver.Result{unsent}, driver.ErrUnreachable},
		"one not sent, then an answer lost": {[]driver.Result{unsent, answerLost}, answerLost.Err},
		"an answer lost, then one not sent": {[]driver.Result{answerLost, unsent}, answerLost.Err},
		"abandoned beside a lost answer":    {[]driver.Result{answerLost, {Err: driver.ErrAbandoned}}, nil},
		"the session over":                  {[]driver.Result{answerLost, granted, over}, driver.ErrSessionEnded},
	} {
		if got := new(session).verdict(c.results); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A key that was freed before its holder could be read is granted.
func TestFreedBeforeTheHolderIsRead(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "freed-read")
	theirs := lockstest.Grant(t, b, "k")
	way.before(getData, func() { lets(t, b, theirs) })
	if r := lockstest.Acquire(t, a, "a", "k")[0]; r.Token <= theirs.Token {
		t.Errorf("%+v, want it granted after token %d", r, theirs.Token)
	}
}

// If the servers report that the session has expired instead of the holder, nothing was granted.
func TestExpiredBeforeTheHolderIsRead(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "expired-read")
	lockstest.Grant(t, b, "k")
	way.before(getData, func() {
		way.change(func(answer []byte) { // length, number, zxid, error: of four, four, eight and four bytes
			if len(answer) >= 20 && binary.BigEndian.Uint32(answer[4:]) < 1<<31 { // no ping
				binary.BigEndian.PutUint32(answer[16:], 1<<32-112)
			}
		})
	})
	if got, err := a.TryAcquire(t.Context(), "a", lockstest.Wants("k")); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("%+v, %v; want that the session is lost", got, err)
	}
}

// A key whose holder changes at each read is not read for ever, and its outcome is unknown.
func TestHolderChangesTooOften(t *testing.T) {
	t.Parallel()
	a, b, op, way := between(t, "hands")
	var mu sync.Mutex
	var theirs []driver.Held
	way.hold(func(opcode uint32) {
		mu.Lock()
		defer mu.Unlock()
		switch opcode {
		case multi:
			got, err := b.TryAcquire(context.WithoutCancel(t.Context()), "b", lockstest.Wants("k"))
			if err != nil || got[0].Token == 0 {
				t.Errorf("%+v, %v", got, err)
				return
			}
			theirs = append(theirs, driver.Held{Key: "k", Token: got[0].Token})
		case getData:
			lets(t, b, theirs[len(theirs)-1])
		}
	})
	got, err := a.TryAcquire(t.Context(), "a", lockstest.Wants("k"))
	if err == nil || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrSessionEnded) || !strings.Contains(err.Error(), "too often") {
		t.Errorf("%+v, %v; want an unknown outcome", got, err)
	}
	way.hold(nil)

	mine := lockstest.Grant(t, a, "k")
	writes := func() {
		if _, err := op.Set("/lockstep/hands/locks/k", nil, -1); err != nil {
			t.Error(err)
		}
	}
	way.hold(func(opcode uint32) {
		if opcode == multi {
			writes()
		}
	})
	if err := a.Release(t.Context(), []driver.Held{mine}); err == nil || !strings.Contains(err.Error(), "too often") {
		t.Errorf("release: %v; want that it fails", err)
	}
	way.before(multi, writes)
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Errorf("release while another client writes once: %v", err)
	}
	lockstest.Grant(t, b, "k")
}

// A key that its holder releases while it is being evicted was not evicted.
func TestReleasedWhileItIsEvicted(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "evicted")
	theirs := lockstest.Grant(t, b, "k")
	lets(t, a, theirs) // it is not its own
	lockstest.Holds(t, b, theirs, true)
	way.before(multi, func() { lets(t, b, theirs) })
	if ok, err := a.Evict(t.Context(), "k", theirs.Token); ok || err != nil {
		t.Errorf("evict: %t, %v", ok, err)
	}
}

// Another user removes the rights of a node: its outcome is unknown, and the error says why.
func TestRightsTakenAway(t *testing.T) {
	t.Parallel()
	a, b, op, way := between(t, "rights")
	lockstest.Grant(t, b, "k")
	mine := lockstest.Grant(t, a, "mine")
	bar := func(key string) {
		if _, err := op.SetACL("/lockstep/rights/locks/"+key, zk.DigestACL(zk.PermAll, "mallory", "m"), -1); err != nil {
			t.Error(err)
		}
	}
	bar("k/held")
	got, err := a.TryAcquire(t.Context(), "a", lockstest.Wants("k"))
	if err == nil || errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "read the holder") {
		t.Errorf("acquire: %+v, %v", got, err)
	}
	if infos, err := a.List(t.Context(), "k", "", 10); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("list: %+v, %v", infos, err)
	}
	lets(t, b, lockstest.Grant(t, b, "free"))
	bar("free")
	if got, err := a.TryAcquire(t.Context(), "a", lockstest.Wants("free")); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("acquire where it may write nothing: %+v, %v", got, err)
	}
	way.before(multi, func() { bar("mine") })
	if err := a.Release(t.Context(), []driver.Held{mine}); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("release: %v", err)
	}
}

// What is freed while it is being listed is not listed.
func TestFreedWhileItIsListed(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "listed")
	first, theirs := lockstest.Grant(t, a, "a"), lockstest.Grant(t, b, "b")
	way.before(getData, func() { lets(t, b, theirs) })
	infos, err := a.List(t.Context(), "b", "", 10)
	if err != nil || len(infos) != 0 {
		t.Errorf("%+v, %v", infos, err)
	}
	if infos, err := a.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 || infos[0].Token != first.Token {
		t.Errorf("%+v, %v; want a alone", infos, err)
	}
}

// A session's node that is there already, as when the answer to its making was lost, is as good as made.
func TestItsNodeIsThere(t *testing.T) {
	t.Parallel()
	a, _, op, way := between(t, "node")
	node := "/lockstep/node/sessions/" + a.ID()
	if err := op.Delete(node, -1); err != nil {
		t.Fatal(err)
	}
	way.before(createNode, func() {
		if _, err := op.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Error(err)
		}
	})
	if err := lockstest.Renew(t.Context(), a); err != nil {
		t.Errorf("renew: %v", err)
	}
}

// Keys of a call that was given up are not asked for.
func TestGivenUpInTheMiddleOfABatch(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "middle")
	ctx, cancel := context.WithCancel(t.Context())
	way.before(multi, cancel)
	var keys []string
	for i := range 3 * inFlight {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	if got, err := a.TryAcquire(ctx, "a", lockstest.Wants(keys...)); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := a.calls.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if infos, err := b.List(t.Context(), "", "", len(keys)); err != nil || len(infos) > 2*together {
		t.Errorf("%d of %d keys were granted, %v; want no more than were asked for at once", len(infos), len(keys), err)
	}
}

// spent is a context that ends in the middle of a call: its caller has no answer yet.
type spent struct {
	context.Context
	asked atomic.Int32
}

func (c *spent) Err() error {
	if c.asked.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

// Of a key that was not asked for any more, as its caller gave up, nothing is known.
func TestGivenUpBeforeTheFirstKey(t *testing.T) {
	t.Parallel()
	a, _, _, _ := between(t, "early")
	got, err := a.TryAcquire(&spent{Context: context.Background()}, "a", lockstest.Wants("k"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v; want the context's error", got, err)
	}
}

// Where the parents are there, a session begins with one request, that which makes its node.
func TestRequestsOfASession(t *testing.T) {
	t.Parallel()
	_, _, _, way := between(t, "begins")
	var mu sync.Mutex
	made := 0
	way.hold(func(opcode uint32) {
		mu.Lock()
		defer mu.Unlock()
		if opcode == createNode {
			made++
		}
	})
	openFor(t, way.addr, "begins", 10*time.Second)
	way.hold(nil)
	mu.Lock()
	defer mu.Unlock()
	if made != 1 {
		t.Errorf("%d requests make nodes, want 1", made)
	}
}

// A key that was never held costs three requests, where the parents exist; a release one, and the next grant one.
func TestRequestsOfAGrant(t *testing.T) {
	t.Parallel()
	a, b, op, way := between(t, "requests")
	var mu sync.Mutex
	var sent []uint32
	way.hold(func(opcode uint32) {
		mu.Lock()
		defer mu.Unlock()
		if opcode != ping {
			sent = append(sent, opcode)
		}
	})
	held := lockstest.Grant(t, a, "k")
	if err := lockstest.Renew(t.Context(), a); err != nil {
		t.Error(err)
	}
	lets(t, a, held)
	lockstest.Grant(t, a, "k")
	way.hold(nil)
	if diff := cmp.Diff([]uint32{multi, createContainer, multi, setData, multi, multi}, sent); diff != "" {
		t.Errorf("requests of a grant, a renewal, a release and another grant (-want +got):\n%s", diff)
	}

	// Another one makes the container at the same time.
	way.before(createContainer, func() { lets(t, b, lockstest.Grant(t, b, "k2")) })
	lockstest.Grant(t, a, "k2")

	// The tree is deleted.
	way.hold(nil)
	deleteTree(t, op, "/lockstep/requests")
	if ok, err := a.Evict(t.Context(), "k", 1); ok || err != nil {
		t.Errorf("evict of a free key: %t, %v", ok, err)
	}
	lockstest.Grant(t, a, "k3")
}

// What a check could not read is not lost.
func TestCheckThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	a, _, _, way := between(t, "unread")
	mine := lockstest.Grant(t, a, "k")
	way.before(exists, func() { way.break_(true) })
	if still, err := a.Check(t.Context(), []driver.Held{mine}); err == nil {
		t.Errorf("%v, want an error", still)
	}
}

// Without a login no error mentions one.
func TestNoLogin(t *testing.T) {
	t.Parallel()
	way := newCut(t, servers.ZooKeeper(t))
	way.hold(func(opcode uint32) {
		if opcode == logsIn {
			t.Error("it logs in")
		}
	})
	lockstest.Grant(t, openFor(t, way.addr, "nobody", 10*time.Second), "k")
}
