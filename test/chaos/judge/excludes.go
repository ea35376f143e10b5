package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// excludes is I14: while a program may trust its lease of a key, no other may trust one of the same key, unless both share it
// or as many as a limit says; and tokens grow from holder to holder of those that exclude each other. Holders checked their leases, and note the time from before the check: so
// a pause between the two makes nothing look held that was not.
//
// Excused are overlaps that the Caps of the driver declare: with lock mode row a connection that the server
// closes frees the key at once, and the holder learns of it at its next renewal, a third of the ttl later
// (lock-down, lock-slow); and the server's clock decides expiry, so one that is set ahead ends leases early, if
// it is a wall clock (lock-clock, and store-clock where the locks are in MariaDB's store).
func (t *trial) excludes() {
	for name, all := range t.holdings() {
		slices.SortFunc(all, func(a, b *holding) int {
			return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.token, b.token))
		})
		for i, next := range all[1:] {
			earlier := slices.DeleteFunc(slices.Clone(all[:i+1]), next.goesWith)
			t.together(name, next, all[:i+1])
			if len(earlier) == 0 {
				continue
			}
			largest := slices.MaxFunc(earlier, func(a, b *holding) int { return cmp.Compare(a.token, b.token) })
			if next.token < largest.token && t.outOfReach(next.holder, next.first, next.last.Sub(largest.first)) {
				continue // it heard late of its grant, when its connection was closed and another one had the key
			}
			before := slices.MaxFunc(earlier, func(a, b *holding) int { return a.last.Compare(b.last) })
			length := before.last.Sub(next.first)
			if length > 0 && !t.outOfReach(before.holder, next.first, length) {
				t.violate(Excludes, "lock "+name, next.first, "%v trusted its lease for %v after %v had the key", before, ms(length), next)
			}
			if next.token <= largest.token {
				t.violate(Excludes, "lock "+name, next.first, "%v came after %v", next, largest)
			}
		}
	}
}

// together checks that no more hold a key than its limit allows.
func (t *trial) together(name string, next *holding, earlier []*holding) {
	if next.kind < 2 {
		return
	}
	var with []*holding
	for _, h := range earlier {
		if h.goesWith(next) && h.last.After(next.first) {
			with = append(with, h)
		}
	}
	if len(with) < int(next.kind) {
		return
	}
	first := slices.MinFunc(with, func(a, b *holding) int { return a.last.Compare(b.last) })
	if length := first.last.Sub(next.first); !t.outOfReach(first.holder, next.first, length) {
		t.violate(Excludes, "lock "+name, next.first, "%d held it with a limit of %d when %v had the key, the first of them, %v, for %v", len(with), next.kind, next, first, ms(length))
	}
}

// holdings are the holdings of each key. A holder has one at a time, so that another token is another one, even
// if it was there before.
func (t *trial) holdings() map[string][]*holding {
	all := map[string][]*holding{}
	now := map[string]*holding{} // by key and holder
	for _, h := range slices.SortedFunc(slices.Values(t.h.Holds), func(a, b history.Hold) int { return a.At.Compare(b.At) }) {
		who := h.Key + " " + h.Holder + " " + h.Waiter
		held := now[who]
		if held == nil || held.token != h.Token {
			held = &holding{h.Holder, 1, h.Token, h.At, h.At}
			if h.Kind != nil {
				held.kind = *h.Kind
			}
			now[who] = held
			all[h.Key] = append(all[h.Key], held)
		}
		held.last = h.At
	}
	return all
}

// holding is one holding of a key, from the first to the last moment that it was trusted.
type holding struct {
	holder      string
	kind        history.Together
	token       int64
	first, last time.Time
}

// goesWith reports whether two may hold a key together.
func (h *holding) goesWith(other *holding) bool { return h.kind == other.kind && h.kind != 1 }

func (h *holding) String() string {
	return fmt.Sprintf("the holder beside %s, with token %d since %s,", h.holder, h.token, h.first.UTC().Format("15:04:05.000"))
}

// outOfReach reports whether the driver declares an overlap of such a length.
func (t *trial) outOfReach(holder string, at time.Time, length time.Duration) bool {
	switch {
	case strings.HasSuffix(t.run.Cell, "+row"):
		return length <= t.run.LockTTL/3+time.Second+t.run.Slack && t.excused(at, at, holder, history.LockDown, history.LockSlow)
	case strings.HasSuffix(t.run.Cell, "+lease"):
		return t.excused(at, at, "", history.LockClock)
	case t.run.Cell == "mariadb+mariadb":
		return t.excused(at, at, "", history.StoreClock)
	}
	return false
}
