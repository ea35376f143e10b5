package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	awaitFirst = 50 * time.Millisecond // between the first two requests; each later pause is longer by a quarter
	awaitMost  = time.Second           // the longest pause
	awaitAway  = time.Minute           // how long there may be no answer
	awaitOne   = 20 * time.Second      // how long one request may take: it may be of a replica that is frozen
)

// wait is a wait for the end of something, by requests that are repeated. Its silence, the time without an answer, is bounded by awaitAway.
type wait struct {
	client *Client
	what   string
	length time.Duration // of the next pause
	since  time.Time     // the last answer
	told   bool          // Options.Away has been called in this silence
}

func newWait(c *Client, what string) *wait {
	return &wait{client: c, what: what, length: awaitFirst, since: time.Now()}
}

// answered ends a silence. The next pause is the shortest.
func (w *wait) answered() { w.length, w.since, w.told = awaitFirst, time.Now(), false }

// pause comes before the next request; err is that of the last one, which ends the wait if it holds or the silence is too long. Errors: err, and that of ctx.
func (w *wait) pause(ctx context.Context, err error) error {
	if err == nil {
		w.since, w.told = time.Now(), false
	} else if left := awaitAway - time.Since(w.since); ctx.Err() == nil {
		if !Transient(err) || left < 0 {
			return err
		}
		if !w.told && w.client.away != nil {
			w.client.away(err, left)
		}
		w.told = true
	}
	timer := time.NewTimer(w.length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("client: %s has not ended: %w", w.what, context.Cause(ctx))
	case <-timer.C:
	}
	w.length = min(w.length*5/4, awaitMost)
	return nil
}

// within asks for one thing, for awaitOne at most.
func within[T any](ctx context.Context, id string, ask func(context.Context, string) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitOne)
	defer cancel()
	return ask(ctx, id)
}

// Transient reports whether a read that failed with err may succeed when it is repeated, at this replica or behind another connection: there
// was no connection, it broke, the answer did not come in time, or the replica was busy or in trouble. A refusal holds, and so do what the
// client refuses itself and a certificate that is not trusted. After the end of the context of the call it says nothing.
func Transient(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests
	}
	return err != nil && !untrusted && !errors.Is(err, jobs.ErrInvalid)
}
