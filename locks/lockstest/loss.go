package lockstest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

var loss = []testCase{
	{"loss/by silence", func(t *testing.T, s *suite) {
		lost(t, s, func(c driver.Session) { time.Sleep(c.TTL() + late) })
	}},
	{"loss/by force", func(t *testing.T, s *suite) {
		if s.ExpireSession == nil {
			t.Skip("the harness cannot expire a session")
		}
		lost(t, s, func(c driver.Session) { s.ExpireSession(t, c) })
	}},
	{"loss/of one session is not that of another", func(t *testing.T, s *suite) {
		ns, d := namespace(), s.client(t)
		b := s.kept(t, d, ns)
		held := s.take(t, b, "user/b")
		a := s.open(t, d, ns)
		s.take(t, a, "user/a")
		s.expire(t, a)
		if err := Renew(calling(t), b); err != nil {
			t.Errorf("renew of the other session: %v", err)
		}
		if !still(t, b, held) {
			t.Error("the other session's key is gone")
		}
	}},
}

// lost checks the error of every call once the session has ended.
func lost(t *testing.T, s *suite, end func(driver.Session)) {
	ns := namespace()
	b := s.warm(t, ns)
	a := s.open(t, s.client(t), ns)
	held := s.takeAll(t, a, "user/a", "user/c")
	end(a)
	var next driver.Result
	eventually(t, callTimeout, "the key is free", func() bool {
		next = s.try(t, b, "user/a")[0]
		return next.Token > 0
	})
	mine := driver.Held{Key: "user/a", Token: next.Token}

	// A driver whose connection ended with the session learns of the end when it has connected again. What waits to be sent then is
	// ErrUnreachable: go-zookeeper gives such requests back each time that it begins with its one address.
	eventually(t, callTimeout, "renew says that the session has ended", func() bool {
		err := Renew(calling(t), a)
		if !errors.Is(err, driver.ErrSessionEnded) && !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("renew: %v, want ErrSessionEnded", err)
		}
		return errors.Is(err, driver.ErrSessionEnded)
	})
	for _, h := range held {
		if still(t, a, h) {
			t.Errorf("check: %s is still held by the lost session", h.Key)
		}
	}
	results, err := a.TryAcquire(calling(t), "id", Wants("user/x"))
	if !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("acquire: %+v, %v, want ErrSessionEnded", results, err)
	}
	if err := a.Release(calling(t), held); err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("release: %v, want nil or ErrSessionEnded", err)
	}
	if gone := a.Ended(); gone != nil {
		select {
		case <-gone:
		case <-time.After(callTimeout):
			t.Error("Ended was not closed")
		}
	}
	if err := a.Close(calling(t)); err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("close: %v, want nil or ErrSessionEnded", err)
	}
	if !still(t, b, mine) {
		t.Error("the lost session took the new holder's key away")
	}
	s.take(t, b, "user/c")
	s.take(t, b, "user/x")
}
