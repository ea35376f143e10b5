package scheduler

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The pauses grow while nothing can be started, up to a bound. What ends in one does not end it, but the next
// one is short; what ends after it does.
func TestPausesForWantOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := room{log: slog.New(slog.NewTextHandler(&log, nil))}
		refused := func() (pause time.Duration) {
			began := time.Now()
			for range 64 {
				r.refused("p", jobs.ErrNoRoom)
			}
			for r.shut("p") {
				time.Sleep(time.Millisecond)
			}
			return time.Since(began)
		}
		var last time.Duration
		for want := roomLeast; want < roomMost; want *= 2 {
			if last = refused(); last < want*3/4 || last > want*5/4+time.Millisecond {
				t.Errorf("a pause of %v, want about %v", last, want)
			}
		}
		if again := refused(); again < roomMost*3/4 || again > roomMost*5/4+time.Millisecond {
			t.Errorf("the last pause is %v", again)
		}
		if c, short := r.condition(); !short || c.Ready || !strings.Contains(c.Detail, "work of p cannot be started here") {
			t.Errorf("%+v, %v", c, short)
		}
		if r.shut("other") {
			t.Error("another pool is shut, too")
		}
		r.worked("p")
		if _, short := r.condition(); short {
			t.Error("said after something was started")
		}
		if first := refused(); first > roomLeast*5/4+time.Millisecond {
			t.Errorf("after a success the pause is %v", first)
		}
		refused()
		r.refused("p", jobs.ErrNoRoom)
		r.worked("p")
		if !r.shut("p") {
			t.Error("a success has ended the pause of others")
		}
		time.Sleep(roomMost)
		if first := refused(); first > roomLeast*5/4+time.Millisecond {
			t.Errorf("after a success within a pause the next one is %v", first)
		}
		time.Sleep(roomShown + time.Millisecond)
		if _, short := r.condition(); short {
			t.Error("said when nothing was refused for long")
		}
		// Pauses of less than a minute, of 64 refusals each: a line each ten seconds.
		if lines := strings.Count(log.String(), "\n"); lines < 3 || lines > 8 {
			t.Errorf("%d lines:\n%s", lines, &log)
		}
	})
}
