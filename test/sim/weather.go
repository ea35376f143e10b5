package sim

import (
	"slices"
	"sync"
	"time"
)

// weather has the present faults.
type weather struct {
	mu      sync.Mutex
	d       draw
	windows []window
	applied map[string]int // how often a fault of a kind changed something
	stirred time.Time      // the end of the last step that was a fault, or that stopped or started replicas
	waited  []lockWait
}

// lockWait is that of a transaction that stalls in its middle.
type lockWait struct{ from, until time.Time }

// window is a fault with its time.
type window struct {
	kind        string
	replica     int // -1: all
	from, until time.Time
	p           float64
	by          time.Duration
}

func (wt *weather) add(w window) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	wt.windows = append(wt.windows, w)
}

// stir notes that a fault, or calls that it delays, may last for d.
func (wt *weather) stir(d time.Duration) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if until := time.Now().Add(d); until.After(wt.stirred) {
		wt.stirred = until
	}
}

// calm reports whether there were no faults from a moment on.
func (wt *weather) calm(since time.Time) bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	return wt.stirred.Before(since)
}

// strikes draws whether a call of a replica meets a fault of one of the kinds, and which.
func (wt *weather) strikes(replica int, kinds ...string) (kind string, by time.Duration) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	now := time.Now()
	for _, w := range wt.windows {
		if now.Before(w.from) || !now.Before(w.until) || w.replica >= 0 && w.replica != replica {
			continue
		}
		for _, k := range kinds {
			if k == w.kind && wt.d.chance(w.p) {
				wt.applied[k]++
				by = 1 + time.Duration(wt.d.Int64N(int64(w.by)+1))
				if k == stalls {
					wt.waited = append(wt.waited, lockWait{now, now.Add(by)})
				}
				return k, by
			}
		}
	}
	return "", 0
}

func (wt *weather) coin() bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	return wt.d.chance(0.5)
}

func (wt *weather) note(kind string) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	wt.applied[kind]++
}

// heal ends all windows.
func (wt *weather) heal() {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	now := time.Now()
	for i := range wt.windows {
		if wt.windows[i].until.After(now) {
			wt.windows[i].until = now
		}
	}
}

// bad reports whether a fault of one of the kinds on the replica, -1: on all, met the time from a moment until
// now.
func (wt *weather) bad(replica int, since time.Time, kinds ...string) bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	for _, w := range wt.windows {
		if w.replica != replica || w.until.Before(since) || w.from.After(time.Now()) {
			continue
		}
		if slices.Contains(kinds, w.kind) {
			return true
		}
	}
	return false
}

// older reports whether a transaction that began before a moment, and waited for locks since, may commit now.
func (wt *weather) older(than time.Time) bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	return slices.ContainsFunc(wt.waited, func(w lockWait) bool { return !w.from.After(than) && !w.until.Before(time.Now()) })
}

// any reports whether a call of a replica may meet a fault of the kind now.
func (wt *weather) any(replica int, kind string) bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	now := time.Now()
	for _, w := range wt.windows {
		if w.kind == kind && !now.Before(w.from) && now.Before(w.until) && (w.replica < 0 || w.replica == replica) {
			return true
		}
	}
	return false
}

// partly reports whether a fault of the kind since a moment struck some calls, and not all.
func (wt *weather) partly(since time.Time, kind string) bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	for _, w := range wt.windows {
		if w.kind == kind && w.p < 1 && !w.until.Before(since) && !w.from.After(time.Now()) {
			return true
		}
	}
	return false
}
