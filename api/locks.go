package api

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

var keyPrefix = regexp.MustCompile(`^[!-~]{0,200}$`)

// inspectTimeout bounds the call to the lock service.
const inspectTimeout = 5 * time.Second

// listLocks lists the held keys and their holders, in order; ?prefix= narrows it.
func (s *server) listLocks(w http.ResponseWriter, r *http.Request) error {
	if s.Locks == nil {
		return notFound("this server has no lock service")
	}
	q := readQuery(r, "prefix", "limit", "cursor")
	prefix, page := q.values.Get("prefix"), q.page()
	if !keyPrefix.MatchString(prefix) {
		q.refuse("prefix", "must be at most 200 printable ASCII characters without blanks")
	}
	if q.err != nil {
		return q.err
	}
	views, err := s.inspect(r.Context(), prefix, page)
	if err != nil {
		return err
	}
	return replyPage(w, "locks", views, func(v wire.Lock) string { return v.Key }, page)
}

// inspect returns the page's locks, and one more if there are more.
func (s *server) inspect(ctx context.Context, prefix string, page wire.Page) ([]wire.Lock, error) {
	after, err := readCursor(page, "locks")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	var views []wire.Lock
	for info, err := range s.Locks.Inspect(ctx, prefix) {
		if err != nil {
			return nil, newProblem(http.StatusServiceUnavailable, "unavailable", err.Error())
		}
		if info.Key <= after {
			continue
		}
		views = append(views, wire.Lock{Key: info.Key, Token: int64(info.Token), Owner: info.Owner, Meta: info.Meta, Since: info.Since})
		if len(views) > page.Limit {
			break
		}
	}
	return views, nil
}
