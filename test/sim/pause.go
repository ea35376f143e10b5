package sim

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// pausing is the pause of everything, as its row has it.
type pausing struct {
	ledger.Pause
	from time.Time // when it was committed
	end  time.Time // of the last one: it has ended, or ends by itself
}

func (w *world) watchPause(p ledger.Pause) {
	now := time.Now()
	switch was := w.pause; {
	case p.Is():
		w.counted["pauses of everything"]++
		w.pause = pausing{Pause: p, from: now, end: was.end}
		if !p.Until.IsZero() {
			w.pause.end = p.Until.Add(-w.offset)
		}
	case was.Is() && (was.end.Before(was.from) || now.Before(was.end)):
		w.pause = pausing{end: now}
	default:
		w.pause = pausing{end: was.end}
	}
}

// pausedNow reports whether everything is paused, and was when every transaction began that commits now.
func (w *world) pausedNow() bool {
	return w.pause.At(w.shows()).Is() && !w.weather.older(w.pause.from) && !w.weather.bad(-1, w.pause.from, dbSteps)
}

// pausedSince reports whether everything was paused at some time since a moment.
func (w *world) pausedSince(since time.Time) bool {
	return w.pause.At(w.shows()).Is() || w.pause.end.After(since)
}
