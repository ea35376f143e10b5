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

// ahead is the holder that the waiters of a line wait for, as far as it is known. With mu held.
func (l *Locker) ahead(key string, n *line) *Info {
	if n.holder != nil {
		return n.holder
	}
	holder := &Info{Key: key, Owner: l.opt.Owner}
	if l.session != nil {
		holder.Session = l.session.drv.ID()
	}
	return holder
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
