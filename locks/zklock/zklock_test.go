package zklock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they work
	os.Exit(servers.Main(m))
}

const ttl = 3 * time.Second

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

// takes tries until key is granted to s, which is renewed meanwhile.
func takes(t *testing.T, s driver.Session, key string) driver.Held {
	t.Helper()
	var h driver.Held
	await.Until(t, "the key is free", func() bool {
		if err := lockstest.Renew(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		h = driver.Held{Key: key, Token: lockstest.Acquire(t, s, "takes", key)[0].Token}
		return h.Token > 0
	})
	return h
}

func TestBatch(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	a, b := openFor(t, addr, "batch", 20*time.Second), openFor(t, addr, "batch", 20*time.Second)
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("k/%03d", i))
	}
	first := lockstest.Acquire(t, b, "b", keys[:50]...)
	got := lockstest.Acquire(t, a, "a", keys...)
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
	if diff := cmp.Diff(got[50:], lockstest.Acquire(t, a, "a", keys[50:]...)); diff != "" {
		t.Errorf("the same acquisition again: %s", diff)
	}
	if again := lockstest.Acquire(t, a, "other", keys[60]); again[0].Holder == nil {
		t.Errorf("another acquisition of the same session: %+v, want busy", again[0])
	}
	still, err := a.Check(t.Context(), held)
	if err != nil || len(still) != 150 {
		t.Fatal(err)
	}
	if err := a.Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	for i, r := range lockstest.Acquire(t, b, "b2", keys[50:]...) {
		if r.Token <= held[i].Token {
			t.Fatalf("%s: %+v after token %d", held[i].Key, r, held[i].Token)
		}
	}
	if err := a.Release(t.Context(), held); err != nil { // released long before
		t.Fatal(err)
	}
	lockstest.Holds(t, b, driver.Held{Key: keys[0], Token: first[0].Token}, true)
	if r := lockstest.Acquire(t, a, "a2", keys[100]); r[0].Holder == nil {
		t.Errorf("a release freed a key of another session: %+v", r[0])
	}
}

// deleteTree deletes a node and all below it.
func deleteTree(t *testing.T, op *zk.Conn, path string) {
	t.Helper()
	children, _, err := op.Children(path)
	if err != nil {
		t.Fatalf("list %s: %v", path, err)
	}
	for _, name := range children {
		deleteTree(t, op, path+"/"+name)
	}
	if err := op.Delete(path, -1); err != nil {
		t.Fatalf("delete %s: %v", path, err)
	}
}

func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	op := operator(t, addr)
	a, b := openFor(t, addr, "by-hand", 10*time.Second), openFor(t, addr, "by-hand", 10*time.Second)
	mine := lockstest.Grant(t, a, "k")
	if err := op.Delete("/lockstep/by-hand/locks/k/held", -1); err != nil {
		t.Fatal(err)
	}
	lockstest.Holds(t, a, mine, false)
	theirs := lockstest.Grant(t, b, "k")
	if err := a.Release(t.Context(), []driver.Held{mine}); err != nil {
		t.Fatal(err)
	}
	lockstest.Holds(t, b, theirs, true)
	if ok, err := a.Evict(t.Context(), "k", mine.Token); ok || err != nil {
		t.Errorf("evict under an old token: %t, %v", ok, err)
	}
	if ok, err := a.Evict(t.Context(), "k", theirs.Token); !ok || err != nil {
		t.Errorf("evict: %t, %v", ok, err)
	}
	lockstest.Holds(t, b, theirs, false)
	deleteTree(t, op, "/lockstep/by-hand")
	if err := lockstest.Renew(t.Context(), a); err != nil {
		t.Errorf("renew: %v", err)
	}
	if h := lockstest.Grant(t, a, "k"); h.Token <= theirs.Token {
		t.Errorf("token %d after %d", h.Token, theirs.Token)
	}
}

// The server removes an idle container, and a new one counts its grants from the start: an eviction
// that is delayed frees no other session's key.
func TestEvictionWhileTheContainerIsMadeAnew(t *testing.T) {
	t.Parallel()
	const multi = 14
	addr := servers.ZooKeeper(t)
	op := operator(t, addr)
	way := newCut(t, addr)
	a, b := openFor(t, addr, "anew", 10*time.Second), openFor(t, addr, "anew", 10*time.Second)
	evictor := openFor(t, way.addr, "anew", 10*time.Second)
	first := lockstest.Grant(t, a, "k")

	sent, on := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() {
		close(sent)
		select {
		case <-on:
		case <-t.Context().Done():
		}
	})
	way.hold(func(opcode uint32) {
		if opcode == multi {
			once()
		}
	})
	evicted := make(chan error, 1)
	go func() {
		ok, err := evictor.Evict(context.WithoutCancel(t.Context()), "k", first.Token)
		if ok {
			err = errors.New("it says that it freed the key")
		}
		evicted <- err
	}()
	<-sent
	if err := a.Release(t.Context(), []driver.Held{first}); err != nil {
		t.Fatal(err)
	}
	if err := op.Delete("/lockstep/anew/locks/k", -1); err != nil && !errors.Is(err, zk.ErrNotEmpty) { // as the server does
		t.Fatal(err)
	}
	theirs := lockstest.Grant(t, b, "k")
	close(on)
	if err := <-evicted; err != nil {
		t.Error(err)
	}
	lockstest.Holds(t, b, theirs, true)
	if children, _, err := op.Children("/lockstep/anew/locks/k"); err != nil || len(children) != 2 {
		t.Errorf("%v, %v: want the holder's nodes only", children, err)
	}
}

// A release that is delayed until its grant was evicted, the container made anew, and the key granted as often as before, frees
// nobody else's.
func TestReleaseWhileTheContainerIsMadeAnew(t *testing.T) {
	t.Parallel()
	a, b, op, way := between(t, "released-anew")
	first := lockstest.Grant(t, a, "k")
	var theirs driver.Held
	way.before(14, func() {
		if ok, err := b.Evict(context.WithoutCancel(t.Context()), "k", first.Token); err != nil || !ok {
			t.Errorf("evict: %t, %v", ok, err)
		}
		if err := op.Delete(b.names.lock("k"), -1); err != nil { // as the server does
			t.Error(err)
		}
		r, err := b.TryAcquire(context.WithoutCancel(t.Context()), "b", lockstest.Wants("k"))
		if err != nil || r[0].Token == 0 {
			t.Errorf("%+v, %v", r, err)
			return
		}
		theirs = driver.Held{Key: "k", Token: r[0].Token}
	})
	lets(t, a, first)
	way.hold(nil)
	lockstest.Holds(t, b, theirs, true)
	if h := b.findHeld(theirs); h == nil || h.version != 1 {
		t.Errorf("%+v: want it to count as the first grant, as the one before did", h)
	} else {
		h.mu.Unlock()
	}
}

func TestListAndNames(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	a := openFor(t, addr, "list/x", 10*time.Second)
	keys := []string{"%", "%2F", ".", "..", "a", "a%2Fb", "a/", "a/1", "a/2", "a/3", "b"}
	got := lockstest.Acquire(t, a, "a", keys...)
	if err := a.Release(t.Context(), []driver.Held{{Key: "a/2", Token: got[8].Token}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"%61", "%zz"} { // no names of keys, the first one would be another name of "a"
		if _, err := operator(t, addr).Create("/lockstep/list%2Fx/locks/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	list := func(prefix string, limit int) (listed []string) {
		for after := ""; ; {
			page, err := a.List(t.Context(), prefix, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit {
				t.Errorf("a page of %d, want %d at most", len(page), limit)
			}
			for _, info := range page {
				if info.Owner != "tester" || info.Meta != "meta of "+info.Key || info.Session != a.ID() || time.Since(info.Since).Abs() > time.Minute {
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

// The names are read once for all pages of a list, and once more if another list was read in between.
func TestListGoesOn(t *testing.T) {
	t.Parallel()
	a := openFor(t, servers.ZooKeeper(t), "pages", 10*time.Second)
	lockstest.Acquire(t, a, "a", "a", "c", "d", "e")
	page := func(prefix, after string, limit int) (keys []string) {
		t.Helper()
		infos, err := a.List(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			keys = append(keys, info.Key)
		}
		return keys
	}
	page("", "", 1)
	lockstest.Acquire(t, a, "b", "b")
	if got := page("", "a", 2); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("the second page has %q", got)
	}
	if got := page("", "d", 2); !slices.Equal(got, []string{"e"}) {
		t.Errorf("the third page has %q", got)
	}
	page("", "", 1)
	page("e", "", 1)
	if got := page("", "a", 2); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("the second page, after another list, has %q", got)
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
	mine := lockstest.Grant(t, a, "k")
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
	if _, err := a.Check(t.Context(), []driver.Held{mine}); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("check: %v, want ErrSessionEnded", err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}
