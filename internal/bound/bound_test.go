package bound_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
)

// The last of its moments is the end of a bound, however they are ordered, and those that wait for the others learn
// of each move.
func TestABoundMovesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := boottime.Awake()
		b := bound.New(now.Add(time.Minute), 5*time.Second, now.Add(2*time.Hour), now.Add(time.Hour))
		if b.StartBy() != now.Add(time.Minute) || b.StartLeft() != time.Minute || b.Grace() != 5*time.Second || b.Left() != 2*time.Hour {
			t.Errorf("start by %v (%v left), grace %v, %v left", b.StartBy(), b.StartLeft(), b.Grace(), b.Left())
		}
		_, first := b.Until()
		b.Move()
		if until, _ := b.Until(); len(until) != 2 || closed(first) {
			t.Errorf("without a moment: %v, moved: %v", until, closed(first))
		}
		b.Move(now.Add(3 * time.Hour))
		until, second := b.Until()
		if len(until) != 1 || until[0] != now.Add(3*time.Hour) || b.Left() != 3*time.Hour || !closed(first) || closed(second) {
			t.Errorf("moved to %v, %v left, told: %v, told of the next: %v", until, b.Left(), closed(first), closed(second))
		}
		b.Move(now.Add(time.Hour), now.Add(4*time.Hour))
		if b.Left() != 4*time.Hour || !closed(second) {
			t.Errorf("moved again: %v left, told: %v", b.Left(), closed(second))
		}
		if until, _ = b.Until(); len(until) == 2 {
			until[0], until[1] = now, now
		}
		if b.Left() != 4*time.Hour {
			t.Errorf("a reader of the moments has changed them: %v left", b.Left())
		}
		time.Sleep(5 * time.Hour)
		if b.Left() != -time.Hour || b.StartLeft() >= 0 {
			t.Errorf("an hour later than its end: %v left, %v to start", b.Left(), b.StartLeft())
		}
		if none := bound.New(now, 0); none.Left() >= 0 {
			t.Errorf("without any moment %v are left", none.Left())
		}
	})
}

func TestBoundOfAContext(t *testing.T) {
	if b := bound.Of(t.Context()); b != nil {
		t.Errorf("a context has the bound %v", b)
	}
	b := bound.New(boottime.Now(), 0)
	if got := bound.Of(bound.With(t.Context(), b)); got != b {
		t.Errorf("got %v", got)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
