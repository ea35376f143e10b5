package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Options of a Locker. The zero value works.
type Options struct {
	// TTL is how long the service keeps the leases after the last renewal: at
	// least 1 s; 10 s if zero. The service may agree to another one.
	TTL time.Duration
	// Namespace keeps programs that share a service apart: printable ASCII without blanks, at most
	// 200 characters; "lockstep" if empty.
	Namespace string
	// Owner is shown as the holder: at most 512 bytes.
	Owner string
	// CallTimeout bounds each call to the service; 2 s if zero.
	CallTimeout time.Duration
	// Observer receives the calls to the service, for metrics; it may be nil, or a nil pointer.
	Observer Observer
}

// Locker acquires locks at one service, all under one session. It is safe for concurrent use.
// Close it.
type Locker struct {
	drv     driver.Driver
	opt     Options
	backend string         // Caps().Name
	fifo    bool           // Caps().FIFO
	opening chan struct{}  // holds one element while a session is being opened
	wakeup  chan struct{}  // wakes keep
	work    sync.WaitGroup // keep, and the goroutines that it or a session started
	closing sync.WaitGroup // the calls that close sessions
	silence error          // the cause of a call timeout

	mu            sync.Mutex
	stop          context.CancelFunc // of keep; nil before the first use
	closed        bool
	session       *session              // nil: none is open
	endedSessions []*session            // ended, to be closed
	holds         map[string]*hold      // by key, of session
	queues        map[string]*waitQueue // by key: what waits here
	inFlight      map[string]int        // calls under way that may change who holds the key
	health        health
	pace          pace
	listeners     []*listener
	hearing       bool          // hear runs
	gone          chan struct{} // closed by Close
}

// New makes a Locker on drv, which it owns from now on. It makes no call: the session is opened
// at the first use.
func New(drv driver.Driver, o Options) (*Locker, error) {
	o.TTL = cmp.Or(o.TTL, 10*time.Second)
	o.Namespace = cmp.Or(o.Namespace, "lockstep")
	o.CallTimeout = cmp.Or(o.CallTimeout, 2*time.Second)
	if nilcheck.IsNil(o.Observer) { // a nil *metrics.Metrics is a non-nil interface
		o.Observer = unobserved{}
	}
	if nilcheck.IsNil(drv) {
		return nil, errors.New("locks: New: the driver is nil")
	}
	if err := drv.Valid(); err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	switch {
	case o.TTL < time.Second:
		return nil, fmt.Errorf("locks: ttl %v: must be at least 1s", o.TTL)
	case !printable(o.Namespace, maxKey):
		return nil, fmt.Errorf("locks: namespace %q: must be 1 to %d printable ASCII characters without blanks", o.Namespace, maxKey)
	case len(o.Owner) > maxMeta:
		return nil, fmt.Errorf("locks: owner %.20q… has %d bytes: at most %d are allowed", o.Owner, len(o.Owner), maxMeta)
	case o.CallTimeout < 0:
		return nil, fmt.Errorf("locks: call timeout %v: must be positive", o.CallTimeout)
	}
	return &Locker{
		drv:      drv,
		opt:      o,
		backend:  drv.Caps().Name,
		fifo:     drv.Caps().FIFO,
		opening:  make(chan struct{}, 1),
		wakeup:   make(chan struct{}, 1),
		silence:  fmt.Errorf("no answer within %v", o.CallTimeout),
		holds:    map[string]*hold{},
		queues:   map[string]*waitQueue{},
		inFlight: map[string]int{},
		gone:     make(chan struct{}),
		health:   health{since: time.Now()},
	}, nil
}

// Caps returns what the backend guarantees.
func (l *Locker) Caps() Caps { return l.drv.Caps() }

// Connect opens the session if there is none. The error names the address of the service and the cause; it
// matches ErrRecovering if the service answers but does not open sessions yet, else
// ErrUnavailable. A service that is recovering may open sessions, and grant nothing: see [Locker.Ready].
func (l *Locker) Connect(ctx context.Context) error {
	calling, cancel := l.calling(ctx)
	defer cancel()
	if err := l.start(); err != nil { //nolint:contextcheck // what it starts outlives the call
		return fmt.Errorf("locks: %w", err)
	}
	if err := l.open(calling); err != nil {
		return fmt.Errorf("locks: %w", err)
	}
	return nil
}

// Close releases all leases in one call, ends the session, joins the background goroutines and
// closes the driver. Leases end with ErrReleased. A session that ended a moment ago, and that the service may still have, is ended
// there at the same time. If the service cannot be reached the error matches ErrUnavailable, and the
// leases expire within the ttl: errors of several sessions are joined. A ctx that has ended before, as after a signal, is left aside: the
// call timeout bounds Close then. A second Close returns nil.
func (l *Locker) Close(ctx context.Context) error {
	ended := ctx.Err() != nil
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.gone)
	s := l.session
	if s != nil {
		l.end(s, ErrReleased)
	}
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.work.Wait()
	l.opening <- struct{}{} // a caller may be opening a session right now; the next one sees closed
	<-l.opening

	if ended {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := l.calling(ctx)
	defer cancel()
	errs := l.closeSessions(ctx)
	if err := l.drv.Close(); err != nil {
		errs = append(errs, fmt.Errorf("locks: close driver: %w", err))
	}
	return errors.Join(errs...)
}

// closeSessions closes the sessions that have ended, all at the same time, so that none waits for another one. It returns the errors of
// those that the service may still have, that of the newest first.
func (l *Locker) closeSessions(ctx context.Context) (errs []error) {
	for _, s := range l.endedSessions { // nothing but this call is left
		if !s.closing {
			l.closing.Go(func() { l.closeSession(ctx, s) })
		}
	}
	l.closing.Wait()
	for _, s := range slices.Backward(l.endedSessions) {
		if s.unclosed != nil && s.mayBeThere() {
			errs = append(errs, fmt.Errorf("locks: close session: %w", unavailable(s.unclosed)))
		}
	}
	return errs
}

// closeSession ends a session at the service.
func (l *Locker) closeSession(ctx context.Context, s *session) {
	err := s.drv.Close(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.unclosed = err; err == nil || errors.Is(err, driver.ErrSessionEnded) {
		s.refused, s.unclosed = true, nil
	}
}

// calling bounds one call to the service.
func (l *Locker) calling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.opt.CallTimeout, l.silence)
}

// givenUp reports whether the caller's context ended the call: that tells nothing about the service.
func (l *Locker) givenUp(calling context.Context) bool {
	return calling.Err() != nil && !errors.Is(context.Cause(calling), l.silence)
}

// explain adds to the error of a call why its context ended.
func explain(calling context.Context, err error) error {
	if err == nil || calling.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(calling), err)
}

// start starts keep, once.
func (l *Locker) start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("%w: %w", ErrUnavailable, errClosed)
	}
	if l.stop == nil {
		// Not the caller's context: the session outlives the call.
		ctx, cancel := context.WithCancel(context.Background())
		l.stop = cancel
		l.work.Go(func() { l.keep(ctx) })
	}
	return nil
}

func (l *Locker) wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}
