package locks

import (
	"fmt"
	"time"
)

// busy says who holds the key, since when, and for how long at most if it has died.
func busy(holder *Info) error {
	text := name(holder)
	if !holder.Since.IsZero() {
		text += " since " + holder.Since.UTC().Format(time.RFC3339)
	}
	if holder.Remaining > 0 {
		text += fmt.Sprintf(", for %v at most without a renewal", holder.Remaining.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: %s: held by %s", ErrBusy, holder.Key, text)
}

// ahead is what a waiter waits for, or a try (nil) would wait for: ErrBusy, with the holder if it is known. With mu held.
func (l *Locker) ahead(key string, w *waiter) (holder *Info, err error) {
	q := l.queues[key]
	switch {
	case q == nil:
	case q.after != nil:
		holder = l.infoOf(q.after)
	default:
		holder = q.holder
	}
	switch {
	case holder != nil:
		return holder, busy(holder)
	case q == nil || q.first() == w:
		return nil, fmt.Errorf("%w: %s: its holder is not known", ErrBusy, key)
	}
	return nil, fmt.Errorf("%w: %s: waiters of this Locker come first, and its holder is not known", ErrBusy, key)
}

// infoOf describes a hold of this Locker, since when by the clock of this process. With mu held.
func (l *Locker) infoOf(h *hold) *Info {
	info := &Info{
		Key: h.key, Token: h.token, Session: h.session.drv.ID(), Owner: l.opt.Owner, Meta: h.meta, Shared: h.kind.mode == Shared,
		Since: h.since.UTC(), Remaining: max(0, h.session.ttl-h.session.renewed.Elapsed()),
	}
	if h.kind.limit > 1 {
		info.Limit = h.kind.limit
	}
	return info
}

func name(holder *Info) string {
	switch {
	case holder.Owner != "":
		return holder.Owner
	case holder.Session != "":
		return "session " + holder.Session
	}
	return "an unknown session"
}
