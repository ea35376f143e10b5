package quorumlock

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// refusal is the error of a call that no majority answered: nothing has happened if so many servers were not reached, or do
// not vote, that the others are no majority. done says what the others did.
func (s *session) refusal(rs replies, done string) error {
	unsent := rs.where(reply.unsent)
	away := rs.where(func(r reply) bool { return r.said("recovering") || r.said("stale") || r.said("lost") })
	var errs []error
	for i, r := range rs {
		switch {
		case r.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.nodes[i].address(), hideSentinels(redisconn.Refused(s.nodes[i].rdb, r.err))))
		case r.said("recovering"):
			errs = append(errs, fmt.Errorf("%s: %s", s.nodes[i].address(), waitFor(r.answer[1])))
		case away.has(i):
			errs = append(errs, fmt.Errorf("%s: has lost its data, or was away: it does not know the session until its next renewal", s.nodes[i].address()))
		}
	}
	ok := s.everywhere() &^ rs.where(func(r reply) bool { return r.err != nil }) &^ away
	err := fmt.Errorf("%d of %d servers %s, of which %d have to: %w", ok.count(), len(s.nodes), done, s.majority, errors.Join(errs...))
	switch {
	case !s.blocks(unsent | away):
		return err
	case s.isMajority(ok | away):
		return fmt.Errorf("%w: %w", driver.ErrRecovering, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}

// partial is refusal for what each server does by itself: if any may have done it, the outcome is unknown.
func (s *session) partial(rs replies, done string, may mask) error {
	err := s.refusal(rs, done)
	sent := s.everywhere() &^ rs.where(reply.unsent)
	if may != 0 || sent != 0 && errors.Is(err, driver.ErrUnreachable) {
		return hideSentinels(err)
	}
	return err
}

// hideSentinels hides the sentinels in the error of one server: they would be read as those of all.
func hideSentinels(err error) error {
	if kindOfError(err) != nil {
		return errors.New(err.Error())
	}
	return err
}

// kindOfError returns the sentinel that an error wraps.
func kindOfError(err error) error {
	for _, kind := range []error{driver.ErrSessionEnded, driver.ErrRecovering, driver.ErrUnreachable} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// commonError is the error of the whole batch, if each key has one of the same kind.
func commonError(results []driver.Result) error {
	kinds := map[error]int{}
	for _, r := range results {
		if r.Err == nil || errors.Is(r.Err, driver.ErrAbandoned) {
			return nil
		}
		kinds[kindOfError(r.Err)]++
	}
	if len(kinds) != 1 {
		return nil
	}
	return results[0].Err
}

// waitFor explains what recovering() of namespace.lua says.
func waitFor(micros any) string {
	text, _ := micros.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	if n == 0 {
		return "it waits for the next renewal of a session to learn the last token"
	}
	wait := time.Duration(n) * time.Microsecond
	return fmt.Sprintf("it is new, was started again or has lost data a short time ago, and may have forgotten locks; it votes again from %s on, in %v",
		time.Now().Add(wait).Format(time.TimeOnly), wait.Round(time.Millisecond))
}
