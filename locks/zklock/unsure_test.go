package zklock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// The answer to a request for a place is lost: asked again it has that place, and once it is abandoned none.
func TestLostAnswerOfAPlace(t *testing.T) {
	t.Parallel()
	for _, abandoned := range []bool{false, true} {
		a, b, op, way := between(t, fmt.Sprint("lost-place-", abandoned))
		queue := b.names.queue("k")
		held := lockstest.Grant(t, b, "k")
		p := driver.Place{Acquisition: rand.Text(), Key: "k"}
		asks := func() ([]driver.Result, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			return a.Acquire(ctx, p.Acquisition, nil, []driver.Want{{Key: "k", Meta: "mine"}})
		}
		waiting := func() (n int) {
			children, _, _ := op.Children(queue)
			for _, name := range children {
				if strings.HasPrefix(name, waits) {
					n++
				}
			}
			return n
		}
		theirs := queuesUp(t, b, driver.Want{Key: "k"}) // so there is a queue, and the first request that changes it takes the place
		way.before(multi, func() {
			way.before(multi, func() { way.set(true, true) })
		})
		if r, err := asks(); err == nil || errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrSessionEnded) {
			t.Fatalf("%+v, %v: want its outcome unknown", r, err)
		}
		way.hold(nil)
		await.Until(t, "the place was taken", func() bool { return waiting() == 2 })
		way.set(false, false)
		if abandoned {
			await.Until(t, "it is abandoned", func() bool {
				return a.Abandon(t.Context(), p.Acquisition, []string{"k"}) == nil
			})
			if n := waiting(); n != 1 {
				t.Errorf("%d wait, want one", n)
			}
			if r, err := asks(); err != nil || !errors.Is(r[0].Err, driver.ErrAbandoned) {
				t.Errorf("%+v, %v: want ErrAbandoned", r, err)
			}
			continue
		}
		var r []driver.Result
		await.Until(t, "it is answered", func() (ok bool) {
			var err error
			r, err = asks()
			return err == nil
		})
		if !r[0].Queued || waiting() != 2 {
			t.Errorf("%+v, and %d places: want the one it has", r, waiting())
		}
		lets(t, b, held)
		lets(t, b, isGranted(t, b, theirs))
		isGranted(t, a, p)
	}
}

// The answer to a request that takes the key for a place is lost: the grant is found when there is a connection again.
func TestLostAnswerOfAGrant(t *testing.T) {
	t.Parallel()
	for _, w := range []driver.Want{{Key: "k"}, {Key: "k", Shared: true}} {
		a, b, _, way := between(t, fmt.Sprint("lost-grant-", w.Shared))
		held := lockstest.Grant(t, b, "k")
		p := queuesUp(t, a, w)
		behind := queuesUp(t, b, driver.Want{Key: "k"})
		way.before(multi, func() { way.set(true, true) })
		lets(t, b, held)
		await.Until(t, "the connection is lost", func() bool { return a.conn.State() != zk.StateHasSession })
		way.hold(nil)
		way.set(false, false)
		mine := isGranted(t, a, p)
		lockstest.Holds(t, a, mine, true)
		lets(t, a, mine)
		isGranted(t, b, behind)
	}
}

// An acquisition that is abandoned while its request is on its way leaves nothing.
func TestAbandonedOnItsWay(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "on-its-way")
	ctx, cancel := context.WithCancel(t.Context())
	on := make(chan struct{})
	way.before(multi, func() { cancel(); <-on })
	p := driver.Place{Acquisition: rand.Text(), Key: "k"}
	if r, err := a.Acquire(ctx, p.Acquisition, nil, lockstest.Wants("k")); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", r, err)
	}
	done := make(chan struct{})
	go func() { defer close(done); abandons(t, a, p) }()
	close(on)
	<-done
	lockstest.Grant(t, b, "k")
	if r, err := a.TryAcquire(t.Context(), p.Acquisition, lockstest.Wants("k")); err != nil || !errors.Is(r[0].Err, driver.ErrAbandoned) {
		t.Errorf("%+v, %v: want ErrAbandoned", r, err)
	}
}
