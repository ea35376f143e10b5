package scheduler

import (
	"sync/atomic"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
)

// assumed is a membership whose session is given by a test.
type assumed struct {
	member
	session atomic.Pointer[membership.Session]
}

func (a *assumed) Session() *membership.Session { return a.session.Load() }

// assume makes it the session of this replica. The first call comes before anything runs.
func (s *executor) assume(ses *membership.Session) {
	a, ok := s.member.(*assumed)
	if !ok {
		a = &assumed{member: s.member}
		s.member = a
	}
	a.session.Store(ses)
}

// storeAnswers reports whether the store counts as there.
func (s *executor) storeAnswers() bool {
	m, ok := s.member.(*membership.Member)
	if !ok {
		m = s.member.(*assumed).member.(*membership.Member)
	}
	m.SetLoaded()
	return m.Vitals().StoreUp
}

// assume makes it the session of all parts of this replica.
func (s *Scheduler) assume(ses *membership.Session) {
	s.work.assume(ses)
	if s.triggers.member != s.work.member {
		s.triggers.member = s.work.member
	}
}
