package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

var (
	keyPrefix = regexp.MustCompile(`^[!-~]{0,200}$`)
	wholeKey  = regexp.MustCompile(`^[!-~]{1,200}$`)
)

// inspectTimeout bounds the call to the lock service.
const inspectTimeout = 5 * time.Second

var errNoLocks = notFound("this server has no lock service")

// listLocks lists who holds keys and who waits for them, in order; ?prefix= narrows it.
func (s *server) listLocks(w http.ResponseWriter, r *http.Request, q *query) error {
	if s.Locks == nil {
		return errNoLocks
	}
	prefix, page, after := q.values.Get("prefix"), q.page(), q.after("locks")
	if !keyPrefix.MatchString(prefix) {
		q.refuse("prefix", "must be at most 200 printable ASCII characters without blanks")
	}
	if q.err != nil {
		return q.err
	}
	views, err := s.inspect(r.Context(), prefix, after, page.Limit)
	if err != nil {
		return err
	}
	return replyPage(w, "locks", views, lockOrder, after, page.Limit)
}

// lockOrder sorts the rows of a list: the keys, of each the holders by their tokens, and then those who wait by their places.
// No key has a blank.
func lockOrder(v wire.Lock) string { return fmt.Sprintf("%s %06d %020d", v.Key, v.Place, v.Token) }

// inspect returns up to limit locks after a row, and one more if there are more.
func (s *server) inspect(ctx context.Context, prefix, after string, limit int) ([]wire.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	var views []wire.Lock
	for info, err := range s.locksFrom(ctx, prefix, after) {
		if err != nil {
			return nil, newProblem(http.StatusServiceUnavailable, "unavailable", err.Error())
		}
		view := viewLock(info)
		if lockOrder(view) <= after {
			continue
		}
		views = append(views, view)
		if len(views) > limit {
			break
		}
	}
	return views, nil
}

// locksFrom lists the rows of the key that a row belongs to, and of the keys behind it.
func (s *server) locksFrom(ctx context.Context, prefix, row string) iter.Seq2[driver.Info, error] {
	key, _, _ := strings.Cut(row, " ")
	return func(yield func(driver.Info, error) bool) {
		if key != "" && strings.HasPrefix(key, prefix) {
			for info, err := range s.Locks.Inspect(ctx, key) { // it is the first with itself as a prefix
				if err == nil && info.Key != key {
					break
				}
				if !yield(info, err) {
					return
				}
			}
		}
		s.Locks.InspectAfter(ctx, prefix, key)(yield)
	}
}

func viewLock(info driver.Info) wire.Lock {
	v := wire.Lock{
		Key: info.Key, Token: int64(info.Token), Place: info.Place, Mode: "exclusive",
		Owner: info.Owner, Session: info.Session, Meta: info.Meta, Since: info.Since,
	}
	switch {
	case info.Shared:
		v.Mode = "shared"
	case info.Limit > 1:
		v.Mode, v.Limit = "limited", info.Limit
	}
	if info.Remaining > 0 {
		v.Remaining = info.Remaining.Round(time.Millisecond).String()
	}
	return v
}

// releaseLock takes a lock from its holder: {"key", "token"}, as the list has them. A holder that got it since has another
// token, and keeps it: 409.
func (s *server) releaseLock(w http.ResponseWriter, r *http.Request, q *query) error {
	if s.Locks == nil {
		return errNoLocks
	}
	var lock wire.HeldLock
	if err := readKeys(w, r, q, map[string]any{"key": &lock.Key, "token": &lock.Token}); err != nil {
		return err
	}
	switch {
	case !wholeKey.MatchString(lock.Key):
		return malformed("key", "must be 1 to 200 printable ASCII characters without blanks")
	case lock.Token < 1:
		return malformed("token", "must be the token of the holder: it grows with each, so that no later holder loses the lock")
	}
	if a, ok := w.(*auditing); ok {
		a.entry.Object = lock.Key
		a.entry.Action += "?token=" + strconv.FormatInt(lock.Token, 10)
	}
	ctx, cancel := context.WithTimeout(r.Context(), inspectTimeout)
	defer cancel()
	released, err := s.Locks.ForceRelease(ctx, lock.Key, driver.Token(lock.Token))
	switch {
	case err != nil:
		return newProblem(http.StatusServiceUnavailable, "unavailable", err.Error())
	case !released:
		return conflict("nobody holds %s under the token %d now; the list of locks has the token of its present holder", quote(lock.Key), lock.Token)
	}
	return reply(w, http.StatusOK, lock)
}
