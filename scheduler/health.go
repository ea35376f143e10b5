package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// health is what readiness depends on.
type health struct {
	log      *slog.Logger
	mu       sync.Mutex
	store    service
	lock     service
	saidAt   time.Time // when people were told that no clock is believed
	started  bool      // the definitions are loaded
	draining bool
}

// service is one that may be away.
type service struct {
	err    error // the last; nil: it is there
	since  time.Time
	saidAt time.Time // when people were told last
}

func (s service) away() string {
	return fmt.Sprintf("away for %s: %v", time.Since(s.since).Round(time.Second), s.err)
}

func (h *health) storeUp() { h.set("store", &h.store, nil) }

func (h *health) storeDown(err error) { h.set("store", &h.store, err) }

func (h *health) lockUp() { h.set("lock service", &h.lock, nil) }

func (h *health) lockDown(err error) { h.set("lock service", &h.lock, err) }

// set notes whether a service is there, and tells people when that changes, or when it is away for another reason.
func (h *health) set(name string, s *service, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.err == nil && err != nil:
		h.log.Warn("service away", "service", name, "error", err)
		s.since, s.saidAt = time.Now(), time.Now()
	case s.err != nil && err == nil:
		h.log.Info("service back", "service", name, "after", time.Since(s.since).Round(time.Millisecond).String())
		s.since = time.Now()
	case err != nil && s.err.Error() != err.Error() && time.Since(s.saidAt) >= sayEvery:
		h.log.Warn("service still away", "service", name, "error", err, "for", time.Since(s.since).Round(time.Second).String())
		s.saidAt = time.Now()
	}
	s.err = err
}

// sayEvery is how often people are told what each decision meets.
const sayEvery = 10 * time.Second

// disbelieved tells people, now and then, that nothing is decided for want of a clock.
func (h *health) disbelieved(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.saidAt.IsZero() || time.Since(h.saidAt) >= sayEvery {
		h.saidAt = time.Now()
		h.log.Warn("nothing is decided", "reason", err)
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
func (s *member) Loaded() bool {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	return s.health.started
}

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

// storeFailed notes an error of the store, if it is one that readiness depends on.
func (s *member) storeFailed(err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, ledger.ErrOutdated):
	case errors.Is(err, ledger.ErrSessionDead):
		nudge(s.nudgeWatch)
	case errors.Is(err, ledger.ErrClock):
		s.health.disbelieved(err)
	default:
		s.health.storeDown(err)
	}
}

// Health says, thing by thing, whether this replica starts new work, and why not.
func (s *Scheduler) Health() []wire.Condition {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()

	store := wire.Condition{Name: "store", Ready: true}
	switch {
	case !h.started && h.draining:
		store.Ready, store.Detail = false, "not joined, as this replica was told to stop before"
	case !h.started:
		store.Ready, store.Detail = false, "joining"
	case h.store.err != nil:
		store.Ready, store.Detail = false, h.store.away()
	case !s.session.Load().trusted():
		store.Ready, store.Detail = false, "no beat was acknowledged in time; the others may take this replica for dead"
	}
	lock := wire.Condition{Name: "lock", Ready: true}
	if h.lock.err != nil {
		lock.Ready = s.opt.WhenDown == DownStore
		lock.Detail = h.lock.away()
		if lock.Ready {
			lock.Detail += "; the store's rows decide alone"
		} else {
			lock.Detail += "; nothing starts until it is there"
		}
	}
	clock := wire.Condition{Name: "clock", Ready: true}
	if off := s.clock.skew(); off != 0 {
		clock.Ready = false
		clock.Detail = fmt.Sprintf("the database's clock moved by %v; nothing is decided until it has been steady for %d beats",
			off.Round(time.Millisecond), consistentRenewals)
	}
	conf := wire.Condition{Name: "configuration", Ready: true}
	conf.Detail = s.drift()
	drain := wire.Condition{Name: "draining", Ready: !h.draining}
	if h.draining {
		drain.Detail = "this replica is stopping"
	}
	all := []wire.Condition{store, lock, clock, conf, drain}
	if room, short := s.room.condition(); short {
		all = append(all, room)
	}
	return all
}

// drift says what is left to replicas with a newer configuration; "": nothing.
func (s *Scheduler) drift() string {
	var what []string
	if n := s.foreign.count(); n > 0 {
		what = append(what, fmt.Sprintf("%d jobs that this replica knows differently", n))
	}
	if left := s.foreign.leftPools(); len(left) > 0 {
		what = append(what, fmt.Sprintf("tasks of %d pools that it has no such handlers for: %s", len(left), some(left)))
	}
	if len(what) == 0 {
		return ""
	}
	return "a newer configuration governs " + strings.Join(what, ", and ")
}

// Vitals says how this replica stands, without asking anybody.
func (s *Scheduler) Vitals() ledger.Vitals {
	v := ledger.Vitals{
		Replica: s.opt.ID, Ready: true, Backend: s.backend,
		SessionsLost: int(s.sessionsLost.Load()), Expired: int(s.expired.Load()),
		Config: s.config.Load(), Foreign: s.foreign.count(), ForeignPools: len(s.foreign.leftPools()), Workers: s.opt.Workers,
		Running: s.register.attemptsByPool(),
	}
	for _, c := range s.Health() {
		v.Ready = v.Ready && c.Ready
	}
	v.StoreUp, v.LockUp, v.Draining = s.health.state()
	if ses := s.session.Load(); ses != nil {
		v.Now = s.clock.now()
		v.RenewalAge = max(0, s.trustFor()-ses.trust.Until())
		v.ClockSkew, v.ClockRefused = s.clock.apart()
		v.Stripes = len(s.owned())
	}
	return v
}
