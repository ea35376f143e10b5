package zklock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
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

// queuesUp takes a place.
func queuesUp(t *testing.T, s *session, w driver.Want) driver.Place {
	t.Helper()
	p := driver.Place{Acquisition: rand.Text(), Key: w.Key}
	if r, err := s.Acquire(t.Context(), p.Acquisition, nil, []driver.Want{w}); err != nil || !r[0].Queued {
		t.Fatalf("%+v, %v: want it queued", r, err)
	}
	return p
}

// isGranted waits for the notification of a place.
func isGranted(t *testing.T, s *session, p driver.Place) driver.Held {
	t.Helper()
	for {
		select {
		case g := <-s.Granted():
			if g.Place == p {
				return driver.Held{Key: p.Key, Token: g.Token}
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%v was not granted", p)
		}
	}
}

// abandons gives up a place, from any goroutine.
func abandons(t *testing.T, s *session, p driver.Place) {
	if err := s.Abandon(context.WithoutCancel(t.Context()), p.Acquisition, []string{p.Key}); err != nil {
		t.Error(err)
	}
}

// requests notes what is sent through a way.
type requests struct {
	mu   sync.Mutex
	sent []uint32
}

func noted(way *cut) *requests {
	r := &requests{}
	way.hold(func(opcode uint32) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if opcode != ping {
			r.sent = append(r.sent, opcode)
		}
	})
	return r
}

// take returns what was sent since the last call.
func (r *requests) take() []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// The place before one is given up, and the key freed, when the one behind has just read that it is there: it looks again instead of
// waiting for what is gone.
func TestPredecessorGoneBeforeItIsWatched(t *testing.T) {
	t.Parallel()
	c, a, _, way := between(t, "predecessor")
	b := openFor(t, way.server, "predecessor", 10*time.Second)
	held := lockstest.Grant(t, a, "k")
	before := queuesUp(t, b, driver.Want{Key: "k"})
	way.before(getData, func() { abandons(t, b, before); lets(t, a, held) })
	p := driver.Place{Acquisition: "c", Key: "k"}
	if r, err := c.Acquire(t.Context(), p.Acquisition, nil, lockstest.Wants("k")); err != nil || !r[0].Queued {
		t.Fatalf("%+v, %v", r, err)
	}
	if next := isGranted(t, c, p); next.Token <= held.Token {
		t.Errorf("token %d after %d", next.Token, held.Token)
	}
}

// A release wakes the first that waits, with one request of its own, and that one the next: the others sleep.
func TestNoHerd(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	a := openFor(t, addr, "herd", 20*time.Second)
	held := lockstest.Grant(t, a, "k")
	var sent []*requests
	var waiters []*session
	var places []driver.Place
	for range 6 {
		way := newCut(t, addr)
		s := openFor(t, way.addr, "herd", 20*time.Second)
		waiters, places = append(waiters, s), append(places, queuesUp(t, s, driver.Want{Key: "k"}))
		sent = append(sent, noted(way))
	}
	lets(t, a, held)
	isGranted(t, waiters[0], places[0])
	await.Until(t, "the second one waits for the holder", func() bool {
		h := waiters[1].find(places[1])
		defer h.mu.Unlock()
		return h.blocker == waiters[1].names.held("k") && h.watch != nil
	})
	if diff := cmp.Diff([]uint32{multi}, sent[0].take()); diff != "" {
		t.Errorf("requests of the first (-want +got):\n%s", diff)
	}
	for i, s := range sent[2:] {
		if woken := s.take(); len(woken) > 0 {
			t.Errorf("number %d behind it was woken: %v", i+2, woken)
		}
	}
}

// All readers of a batch are granted when the writer before them is gone, and a limit lets in as many as fit.
func TestBatchesAreWoken(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	for kind, c := range map[string]struct {
		want driver.Want
		fit  int
	}{
		"shared": {driver.Want{Key: "shared", Shared: true}, 5}, "limit": {driver.Want{Key: "limit", Limit: 3}, 3},
	} {
		a, b := openFor(t, addr, "batches", 20*time.Second), openFor(t, addr, "batches", 20*time.Second)
		held := lockstest.Grant(t, a, c.want.Key)
		var places []driver.Place
		for range 5 {
			places = append(places, queuesUp(t, b, c.want))
		}
		lets(t, a, held)
		var last driver.Held
		for range c.fit {
			g := <-b.Granted()
			last = driver.Held{Key: g.Key, Token: g.Token}
		}
		infos, err := a.List(t.Context(), c.want.Key, "", 1)
		if err != nil || len(infos) != len(places) || infos[c.fit-1].Place != 0 || c.fit < len(infos) && infos[c.fit].Place != 1 {
			t.Errorf("%s: %+v, %v: want %d of them to hold it", kind, infos, err, c.fit)
		}
		if c.fit < len(places) {
			lets(t, b, last)
			if g := <-b.Granted(); g.Token <= last.Token {
				t.Errorf("%s: %+v after token %d", kind, g, last.Token)
			}
		}
	}
}

// A place that is looked at while it waits keeps its one watch.
func TestLooksShareAWatch(t *testing.T) {
	t.Parallel()
	a, b, _, _ := between(t, "watches")
	held := lockstest.Grant(t, a, "k")
	first, second := queuesUp(t, b, driver.Want{Key: "k"}), queuesUp(t, b, driver.Want{Key: "k"})
	full, one := driver.Want{Key: "limit", Limit: 2}, func() {
		if r, err := a.TryAcquire(t.Context(), rand.Text(), []driver.Want{{Key: "limit", Limit: 2}}); err != nil || r[0].Token == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	one()
	one()
	third := queuesUp(t, b, full)
	watch := func(p driver.Place) <-chan zk.Event {
		h := b.find(p)
		defer h.mu.Unlock()
		return h.watch
	}
	places := []driver.Place{first, second, third}
	var were []<-chan zk.Event
	for _, p := range places {
		were = append(were, watch(p))
	}
	for range 3 {
		results, err := b.Look(t.Context(), places)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if !r.Queued || r.Holder == nil || i < 2 && r.Holder.Token != held.Token {
				t.Errorf("%v: %+v", places[i], r)
			}
			if now := watch(places[i]); now == nil || now != were[i] {
				t.Errorf("%v has another watch", places[i])
			}
		}
	}
}

// A place whose node somebody deletes is none any more.
func TestPlaceDeletedByHand(t *testing.T) {
	t.Parallel()
	a, b, op, _ := between(t, "place-by-hand")
	held := lockstest.Grant(t, b, "k")
	p, behind := queuesUp(t, a, driver.Want{Key: "k"}), queuesUp(t, b, driver.Want{Key: "k"})
	children, _, err := op.Children(a.names.queue("k"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range children {
		if strings.Contains(name, a.ID()) {
			if err := op.Delete(a.names.queue("k")+"/"+name, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	lets(t, b, held)
	isGranted(t, b, behind)
	if r, err := a.Look(t.Context(), []driver.Place{p}); err != nil || !errors.Is(r[0].Err, driver.ErrNotQueued) {
		t.Errorf("%+v, %v: want ErrNotQueued", r, err)
	}
}

// Free keys are taken with one request, also many; and a try leaves no node in a queue that lets it in or not.
func TestRequestsOfManyKeys(t *testing.T) {
	t.Parallel()
	a, b, op, way := between(t, "many")
	var keys []string
	for i := range together {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	results, err := a.Acquire(t.Context(), "first", nil, lockstest.Wants(keys...))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		lets(t, a, driver.Held{Key: keys[i], Token: r.Token})
	}
	sent := noted(way)
	if results, err = a.Acquire(t.Context(), "second", nil, lockstest.Wants(keys...)); err != nil || results[together-1].Token == 0 {
		t.Fatalf("%+v, %v", results, err)
	}
	if diff := cmp.Diff([]uint32{multi}, sent.take()); diff != "" {
		t.Errorf("requests for %d keys (-want +got):\n%s", together, diff)
	}
	way.hold(nil)
	reader := []driver.Want{{Key: "shared", Shared: true}}
	for id, s := range map[string]*session{"a": a, "b": b} {
		if r, err := s.TryAcquire(t.Context(), id, reader); err != nil || r[0].Token == 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if r, err := b.TryAcquire(t.Context(), "writer", lockstest.Wants("shared")); err != nil || r[0].Holder == nil || !r[0].Holder.Shared {
		t.Errorf("%+v, %v: want it busy", r, err)
	}
	children, _, err := op.Children(a.names.queue("shared"))
	if err != nil || len(children) != 2 {
		t.Errorf("%v, %v: want two holders", children, err)
	}
}
