package judge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// inTurn is I15: what asked for a key after the place of another was acknowledged is granted after that one, unless that
// lost its session, died or gave up; and a key for which somebody waits is not without a holder for longer than a dead
// session lasts, and a lost notification delays: lock ttl + 2 s, and Run.Slack. Tokens are minted with the grants, so they
// tell their order.
//
// So is a key that nobody worked under while "locks exec" waited for it for so long, and gave up.
//
// Order is demanded of services that have it. A key without a holder is excused by the faults of the lock service.
func (t *trial) inTurn() {
	byKey := map[string][]history.Wait{}
	for _, w := range t.h.Waits {
		byKey[w.Key] = append(byKey[w.Key], w)
	}
	holdings := t.holdings()
	for key, waits := range byKey {
		if t.inOrder() {
			t.overtaken(key, waits)
		}
		t.idleKey(key, waits, holdings[key])
	}
	t.waitedInVain()
}

// inOrder reports whether the lock service of the cell has a queue.
func (t *trial) inOrder() bool {
	return !strings.HasSuffix(t.run.Cell, "+row") && !strings.HasSuffix(t.run.Cell, "+quorum")
}

// queued are the waits that were acknowledged, and granted under the same session.
func (t *trial) queued() (all []history.Wait) {
	for _, w := range t.h.Waits {
		if w.Token > 0 && !w.Queued.IsZero() && !w.Moved {
			all = append(all, w)
		}
	}
	return all
}

// overtaken finds waits that were granted after one that asked once they were in the queue. Readers whose turn has come together
// may be granted in any order.
func (t *trial) overtaken(key string, waits []history.Wait) {
	granted := slices.DeleteFunc(slices.Clone(waits), func(w history.Wait) bool { return w.Token == 0 })
	slices.SortFunc(granted, func(a, b history.Wait) int { return cmp.Compare(b.Token, a.Token) }) // the last first
	var longestAlone, longestOfAll *history.Wait                                                   // of those granted later, in the queue since the earliest moment
	for i := range granted {
		w := &granted[i]
		longest := longestOfAll
		if w.Kind == 0 {
			longest = longestAlone
		}
		if longest != nil && longest.Queued.Before(w.Asked) && longest.Token > w.Token {
			t.violate(InTurn, "lock "+key, w.Asked, "%s asked %v after the place of %s was acknowledged, and was granted before it, token %d before %d",
				w.Waiter, ms(w.Asked.Sub(longest.Queued)), longest.Waiter, w.Token, longest.Token)
		}
		if w.Queued.IsZero() || w.Moved {
			continue
		}
		if longestOfAll == nil || w.Queued.Before(longestOfAll.Queued) {
			longestOfAll = w
		}
		if w.Kind != 0 && (longestAlone == nil || w.Queued.Before(longestAlone.Queued)) {
			longestAlone = w
		}
	}
}

// idleKey finds waits during which nobody had the key for too long.
func (t *trial) idleKey(key string, waits []history.Wait, held []*holding) {
	slices.SortFunc(held, func(a, b *holding) int { return a.first.Compare(b.first) })
	most := t.run.LockTTL + 2*time.Second + t.run.Slack
	for _, w := range waits {
		if w.Queued.IsZero() || w.Moved {
			continue
		}
		since := w.Queued
		check := func(until time.Time) bool {
			idle := until.Sub(since)
			if idle <= most || t.excused(since, until, "", t.lockFaults()...) {
				return false
			}
			t.violate(InTurn, "lock "+key, since, "nobody had it for %v while %s waited", ms(idle), w.Waiter)
			return true
		}
		found := false
		for _, h := range held {
			if found || h.first.After(w.Ended) {
				break
			}
			if h.first.After(since) {
				found = check(h.first)
			}
			if h.last.After(since) {
				since = h.last
			}
		}
		if !found && since.Before(w.Ended) {
			check(w.Ended)
		}
	}
}
