package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// health is what readiness depends on.
type health struct {
	log      *slog.Logger
	mu       sync.Mutex
	store    service
	lock     service
	saidAt   time.Time // when the log last said that no clock is believed
	started  bool      // the definitions are loaded
	draining bool
}

// service is the store or the lock service.
type service struct {
	err    error // the last; nil: it answers
	since  time.Time
	saidAt time.Time // when it was logged last
}

func (s service) away() string {
	return fmt.Sprintf("unavailable for %s: %v", time.Since(s.since).Round(time.Second), s.err)
}

func (h *health) storeUp() { h.set("store", &h.store, nil) }

func (h *health) storeDown(err error) { h.set("store", &h.store, err) }

func (h *health) lockUp() { h.set("lock service", &h.lock, nil) }

func (h *health) lockDown(err error) { h.set("lock service", &h.lock, err) }

// set notes whether a service answers, and logs when that changes, or when it is away for another reason.
func (h *health) set(name string, s *service, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.err == nil && err != nil:
		h.log.Warn("service unavailable; retrying", "service", name, "error", err)
		s.since, s.saidAt = time.Now(), time.Now()
	case s.err != nil && err == nil:
		h.log.Info("service available again", "service", name, "after", time.Since(s.since).Round(time.Millisecond).String())
		s.since = time.Now()
	case err != nil && s.err.Error() != err.Error() && time.Since(s.saidAt) >= sayEvery:
		h.log.Warn("service still unavailable; retrying", "service", name, "error", err, "for", time.Since(s.since).Round(time.Second).String())
		s.saidAt = time.Now()
	}
	s.err = err
}

// sayEvery is the shortest time between two log lines about a condition that each decision meets.
const sayEvery = 10 * time.Second

// disbelieved logs, at most each sayEvery, that nothing is decided because no clock is believed.
func (h *health) disbelieved(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.saidAt.IsZero() || time.Since(h.saidAt) >= sayEvery {
		h.saidAt = time.Now()
		h.log.Warn("the database's clock is not trusted; nothing is decided", "reason", err)
	}
}

func (h *health) lockIsDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lock.err != nil
}

func (h *health) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
}

// Loaded reports whether the definitions of this replica are in the store. Once they are, they stay.
func (m *Member) Loaded() bool {
	m.health.mu.Lock()
	defer m.health.mu.Unlock()
	return m.health.started
}

// SetLoaded says that the definitions are loaded: from now on this replica is ready, unless a service is away.
func (m *Member) SetLoaded() { m.health.start() }

// Drain says that this replica takes nothing new from now on.
func (m *Member) Drain() { m.health.drain() }

// Draining reports whether Drain was called.
func (m *Member) Draining() bool { return m.health.isDraining() }

func (h *health) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

func (h *health) state() (storeUp, lockUp, draining bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started && h.store.err == nil, h.lock.err == nil, h.draining
}

func (h *health) isDraining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining
}

// StoreFailed notes an error of the store, if it is one that readiness depends on.
func (m *Member) StoreFailed(err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, ledger.ErrOutdated):
	case errors.Is(err, ledger.ErrSessionDead):
		wake.Send(m.lookNow)
	case errors.Is(err, ledger.ErrClock):
		m.health.disbelieved(err)
	default:
		m.health.storeDown(err)
	}
}

// Conditions say, one by one, whether this replica starts new work, and why not.
func (m *Member) Conditions() (store, clock, draining wire.Condition) {
	h := &m.health
	h.mu.Lock()
	defer h.mu.Unlock()

	store = wire.Condition{Name: "store", Ready: true}
	switch {
	case !h.started && h.draining:
		store.Ready, store.Detail = false, "not joined, as this replica was told to stop before"
	case !h.started:
		store.Ready, store.Detail = false, "joining"
	case h.store.err != nil:
		store.Ready, store.Detail = false, h.store.away()
	case !m.Session().Trusted():
		store.Ready, store.Detail = false, "no heartbeat was acknowledged in time; this replica's session may have expired"
	}
	clock = wire.Condition{Name: "clock", Ready: true}
	if off := m.clock.skew(); off != 0 {
		clock.Ready = false
		clock.Detail = fmt.Sprintf("the database's clock moved by %v; nothing is decided until it has been steady for %d heartbeats",
			off.Round(time.Millisecond), consistentRenewals)
	}
	draining = wire.Condition{Name: "draining", Ready: !h.draining}
	if h.draining {
		draining.Detail = "this replica is stopping"
	}
	return store, clock, draining
}

// Vitals are those of the session, the clock and the services.
func (m *Member) Vitals() wire.Vitals {
	v := wire.Vitals{
		Replica: m.opt.ID, SessionsExpired: int(m.sessionsLost.Load()), PeersExpired: int(m.expired.Load()),
		Config: m.Config().Number, Workers: m.opt.Workers,
	}
	v.StoreUp, v.LockUp, v.Draining = m.health.state()
	if ses := m.Session(); ses != nil {
		v.Now = m.clock.Now()
		v.RenewalAge = max(0, m.trustFor()-ses.Trust.Until())
		v.ClockSkew, v.ClockRefused = m.clock.apart()
	}
	return v
}
