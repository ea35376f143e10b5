package work

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// The pauses grow while nothing can be started, up to a bound. An attempt that ends in one does not end it, but makes the
// next one short; an attempt that ends after it ends the shortage.
func TestPausesForWantOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := shortages{log: slog.New(slog.NewTextHandler(&log, nil))}
		refused := func() (pause time.Duration) {
			began := time.Now()
			for range 64 {
				r.refused("p", abort.ErrNoRoom)
			}
			for r.closed("p") {
				time.Sleep(time.Millisecond)
			}
			return time.Since(began)
		}
		var last time.Duration
		for want := shortageLeast; want < shortageMost; want *= 2 {
			if last = refused(); last < want*3/4 || last > want*5/4+time.Millisecond {
				t.Errorf("a pause of %v, want about %v", last, want)
			}
		}
		for range 20 {
			if again := refused(); again < shortageMost*3/4 || again > shortageMost*5/4+time.Millisecond {
				t.Errorf("a later pause is %v", again)
			}
		}
		if longest := shortageMost*5/4 + shortageShown; longest >= 5*time.Second {
			t.Errorf("a replica may not be ready for %v after there is room again", longest)
		}
		if c, short := r.condition(); !short || c.Ready || !strings.Contains(c.Detail, "tasks of p cannot be started on this replica") {
			t.Errorf("%+v, %v", c, short)
		}
		if r.closed("other") {
			t.Error("another pool is closed, too")
		}
		r.worked("p")
		if _, short := r.condition(); short {
			t.Error("said after something was started")
		}
		if first := refused(); first > shortageLeast*5/4+time.Millisecond {
			t.Errorf("after a success the pause is %v", first)
		}
		refused()
		r.refused("p", abort.ErrNoRoom)
		r.worked("p")
		if !r.closed("p") {
			t.Error("a success has ended the pause of others")
		}
		time.Sleep(shortageMost)
		if first := refused(); first > shortageLeast*5/4+time.Millisecond {
			t.Errorf("after a success within a pause the next one is %v", first)
		}
		time.Sleep(shortageShown + time.Millisecond)
		if _, short := r.condition(); short {
			t.Error("said when nothing was refused for long")
		}
		// Pauses of less than a minute, of 64 refusals each: a line each ten seconds.
		if lines := strings.Count(log.String(), "\n"); lines < 3 || lines > 8 {
			t.Errorf("%d lines:\n%s", lines, &log)
		}
	})
}

// Readiness says which pools have no room, in order, with the last error of the one that is left to others longest. Each
// pool is logged at once, and after sayEvery with how many of its starts have found no room since.
func TestWhatIsSaidForWantOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &replicatest.Warnings{}
		r := shortages{log: slog.New(log)}
		says := func(err string) {
			t.Helper()
			for range 50 { // the order of a map changes
				c, short := r.condition()
				if want := "tasks of a, b, c cannot be started on this replica and are handed back: " + err; !short || c.Name != "room" || c.Ready || c.Detail != want {
					t.Fatalf("%+v, %t, want %q", c, short, want)
				}
			}
		}
		told := func(want ...string) {
			t.Helper()
			for i := range want {
				want[i] = "tasks handed back: they cannot be started on this replica pool=" + want[i]
			}
			if got := log.Take(); !slices.Equal(got, want) {
				t.Errorf("the log is told %q, want %q", got, want)
			}
		}
		r.refused("b", errors.New("one"))
		told("b tasks=1 error=one")
		time.Sleep(shortageLeast * 5 / 4)
		r.refused("c", errors.New("of c"))
		r.refused("b", errors.New("two")) // its second pause is longer than the first ones of others
		r.refused("a", errors.New("of a"))
		told("c tasks=1 error=of c", "a tasks=1 error=of a")
		says("two")
		r.refused("b", errors.New("three"))
		says("three")
		time.Sleep(sayEvery - shortageLeast*5/4 - 1)
		r.refused("b", errors.New("four"))
		told()
		time.Sleep(1)
		r.refused("b", errors.New("five"))
		told("b tasks=4 error=five")
	})
}

// A pause is longer than the one before, unless that was over for more than shortageMost; for shortageShown more it is said.
func TestHowLongAPauseIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := shortages{log: slog.New(slog.DiscardHandler)}
		pause := func() time.Duration {
			r.refused("p", abort.ErrNoRoom)
			return time.Until(r.pools["p"].until)
		}
		time.Sleep(pause() + shortageMost)
		second := pause()
		if second < 2*shortageLeast*3/4 {
			t.Errorf("the second pause is %v", second)
		}
		time.Sleep(second + shortageShown)
		if _, short := r.condition(); !short {
			t.Error("it is not said any more")
		}
		time.Sleep(1)
		if _, short := r.condition(); short {
			t.Error("it is still said")
		}
		time.Sleep(shortageMost - shortageShown)
		if another := pause(); another > shortageLeast*5/4 {
			t.Errorf("after a long time without one the pause is %v", another)
		}
	})
}
