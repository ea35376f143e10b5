package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// reply is what one server said; err is errNotAsked for those that were not asked.
type reply struct {
	answer []any
	err    error
}

func (r reply) said(what string) bool { return r.err == nil && r.answer[0] == what }

// unsent reports whether certainly nothing has reached the server.
func (r reply) unsent() bool {
	return errors.Is(r.err, driver.ErrUnreachable) || errors.Is(r.err, errNotAsked)
}

// sent reports whether something may have reached the server.
func (r reply) sent() bool { return !r.unsent() }

var (
	errNotAsked = errors.New("the session is not installed there until its next renewal")
	errNoAnswer = errors.New("no answer in time")
	errLate     = fmt.Errorf("%w: %w", context.DeadlineExceeded, errNoAnswer)
)

// replies has one reply of each server.
type replies []reply

// where returns the servers whose reply meets a condition.
func (rs replies) where(is func(r reply) bool) (m mask) {
	for i, r := range rs {
		if is(r) {
			m = m.with(i)
		}
	}
	return m
}

func (rs replies) said(what string) mask { return rs.where(func(r reply) bool { return r.said(what) }) }
