package locks

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const page = 200 // keys

// Inspect lists who holds the keys that start with prefix, of all processes, and who waits for them where the backend has
// a queue (Info.Place), in key order. The prefix is that of whole keys: "user/" or "sys/" are part of it. It reads page by
// page: a key whose holder changes meanwhile may be missing or stale. The error, if any, comes last.
func (l *Locker) Inspect(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return l.InspectAfter(ctx, prefix, "")
}

// InspectAfter is Inspect of the keys behind one: a list that is shown in parts goes on with it.
func (l *Locker) InspectAfter(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for after := after; ; {
			var infos []Info
			err := l.call(ctx, func(calling context.Context, s driver.Session) (err error) {
				infos, err = s.List(calling, prefix, after, page)
				return err
			})
			if err != nil {
				yield(Info{}, fmt.Errorf("locks: inspect: %w", err))
				return
			}
			keys := 0
			for _, info := range infos {
				if !yield(info, nil) {
					return
				}
				if info.Key != after {
					keys, after = keys+1, info.Key
				}
			}
			if keys < page {
				return
			}
		}
	}
}

// ForceRelease evicts the holder of the key under the token, in any process, and returns false if there
// is none. Keys of the scheduler (those that start with "sys/") are allowed. The holder learns of it with its next renewal
// (ErrForced), not before: use it for a holder that is known to be stuck. If the error matches ErrUnavailable or ErrRecovering,
// nothing was freed; after any other error of the service it may have been.
func (l *Locker) ForceRelease(ctx context.Context, key string, token Token) (bool, error) {
	key, err := fullKey(syskeys.Allow(ctx), key)
	if err != nil {
		return false, fmt.Errorf("locks: force release: %w", err)
	}
	var freed bool
	err = l.call(ctx, func(calling context.Context, s driver.Session) (err error) {
		freed, err = s.Evict(calling, key, token)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("locks: force release %s: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.find(key, token); h != nil { // also if it was evicted before
		l.force(h)
	}
	return freed, nil
}
