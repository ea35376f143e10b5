package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/store"
)

// interrupted is the end of a wait by a signal.
type interrupted struct{ syscall.Signal }

func (i interrupted) Error() string { return "interrupted: " + i.Signal.String() }

// waits reports whether the lock is waited for.
func (l lockedCommand) waits() bool { return l.wait > 0 || l.forever }

// begin is the time until the command is run: a signal ends it, and is its cause then. end returns once signals are not read any more.
func begin(ctx context.Context, signals <-chan os.Signal) (_ context.Context, end func()) {
	waiting, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(interrupted{number})
		case <-waiting.Done():
		}
	}()
	return waiting, func() { cancel(nil); <-watched }
}

// within limits ctx to what is left of --wait after a part of it.
func (l lockedCommand) within(ctx context.Context, spent time.Duration) (context.Context, context.CancelFunc) {
	if l.wait == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, l.wait-spent)
}

// acquire opens the lock service, compares it with that of the replicas, and acquires the key. p is open, unless it is nil. --wait is
// for the first and the last of these: the comparison takes the ttl of a session at most, and is no wait for the lock.
func (a *app) acquire(ctx context.Context, c *config.Config, l lockedCommand) (p *parts, lease *locks.Lease, err error) {
	host, _ := os.Hostname()
	began := time.Now()
	opening, stop := l.within(ctx, 0)
	defer stop()
	err = a.again(opening, c, l, func() (err error) {
		if p, err = openForUsers(opening, c, locks.Options{Owner: fmt.Sprintf("%s/%d", host, os.Getpid())}); err != nil {
			p = nil
		}
		return err
	})
	if err != nil {
		return nil, nil, notOpened(c, err)
	}
	spent := time.Since(began)
	if err := a.agree(ctx, c, p); err != nil {
		return p, nil, err
	}
	ctx, stop = l.within(ctx, spent)
	defer stop()
	waiting, end := p.whileHeld(ctx)
	defer end()
	err = a.again(waiting, c, l, func() (err error) {
		lease, err = l.acquire(waiting, p.users)
		return err
	})
	if gone := p.holds(); gone != nil && ctx.Err() == nil { // what was granted there excludes nobody
		return p, nil, fmt.Errorf("%w\nOthers lock in another file now: run it again", gone)
	}
	if err != nil {
		return p, nil, a.notGranted(context.WithoutCancel(ctx), c, p.users, l, err)
	}
	return p, lease, nil
}

// againAfter is the pause after a service could not be reached.
const againAfter = 500 * time.Millisecond

// again calls f, again and again if the lock is waited for and what f needs cannot be reached:
//
//  1. call f; return what is no outage
//  2. when the time is up, return the last cause
//  3. at the first outage, probe the servers: another kind of server is not waited for. Else say once that it is tried again
//  4. pause
func (a *app) again(ctx context.Context, c *config.Config, l lockedCommand, f func() error) error {
	var cause error
	for {
		err := f()
		first := cause == nil
		if away(err) {
			cause = err
		}
		switch {
		case err == nil, errors.Is(err, locks.ErrBusy), !l.waits(), cause == nil:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("not reached within %v: %w", l.wait, cause)
		case !away(err):
			return err
		}
		if first {
			if _, diagnosis := unreachable(ctx, c.Lock, err); diagnosis != nil && errors.Is(err, locks.ErrUnavailable) {
				return fmt.Errorf("%w: %w", diagnosis, err)
			}
			limit := "without a limit"
			if !l.forever {
				limit = fmt.Sprintf("for up to %v", l.wait)
			}
			fmt.Fprintf(a.stderr, "warning: not reached, tried again %s: %v\n", limit, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
		}
	}
}

// away reports whether a service cannot be reached now, for a reason that may end by itself.
func away(err error) bool {
	return (errors.Is(err, locks.ErrUnavailable) || errors.Is(err, jobs.ErrUnavailable)) && !misconfigured(err)
}

// refusedMySQL are refusals of an account or a database name; refusedRedis those of a login.
var (
	refusedMySQL = []uint16{1044, 1045, 1049, 1142, 1143, 1698}
	refusedRedis = []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR invalid password", "ERR Client sent AUTH", "ERR AUTH"}
)

// misconfigured reports whether a server has answered, and refuses what the configuration says: the account, the certificate, or
// that it is this kind of server.
func misconfigured(err error) bool {
	return anyOf(err, func(err error) bool {
		switch e := err.(type) { //nolint:errorlint // anyOf unwraps
		case wrongServer, tls.RecordHeaderError, *tls.CertificateVerificationError,
			x509.UnknownAuthorityError, x509.CertificateInvalidError, x509.HostnameError:
			return true
		case *net.OpError:
			return e.Op == "remote error" // a TLS alert
		case *mysql.MySQLError:
			return slices.Contains(refusedMySQL, e.Number)
		case redis.Error:
			return slices.ContainsFunc(refusedRedis, func(prefix string) bool { return strings.HasPrefix(e.Error(), prefix) })
		}
		return slices.Contains(permanentMySQL, err) || slices.Contains([]error{zk.ErrAuthFailed, zk.ErrNoAuth}, err)
	})
}

// acquire gets the lease: by one try, or in turn.
func (l lockedCommand) acquire(ctx context.Context, locker *locks.Locker) (*locks.Lease, error) {
	if !l.waits() {
		attempts, err := locker.TryAcquire(ctx, l.request)
		if err != nil {
			return nil, err
		}
		return attempts[0].Lease, attempts[0].Err
	}
	leases, err := locker.Acquire(ctx, l.request)
	if err != nil {
		return nil, err
	}
	return leases[0], nil
}

// notOpened turns an error of the store, or of the files of the configuration, into an exit code: usage where the file is to be corrected.
func notOpened(c *config.Config, err error) error {
	switch {
	case misconfigured(err):
		return exit{exitUsage, fmt.Errorf("%w\nCorrect store.dsn in the configuration, or the account; 'scheduler doctor' examines it", err)}
	case errors.Is(err, jobs.ErrUnavailable):
		return fmt.Errorf("%w\nSee that the database runs, and that store.dsn is right; 'scheduler doctor' examines it", err)
	case c.Store.Driver != config.SQLite:
		return err
	}
	_, file := os.Stat(c.Store.DSN)
	_, folder := os.Stat(filepath.Dir(c.Store.DSN))
	switch {
	case folder != nil:
		return exit{exitUsage, fmt.Errorf("store.dsn: %w; make it, or correct store.dsn", err)}
	case file == nil && !errors.Is(err, store.ErrSchema):
		return exit{exitUsage, fmt.Errorf("store.dsn: %w", err)}
	}
	return err
}

// notGranted turns the error of acquire into an exit code, and says who holds the key.
func (a *app) notGranted(ctx context.Context, c *config.Config, locker *locks.Locker, l lockedCommand, err error) error {
	switch {
	case errors.Is(err, locks.ErrUnavailable):
		if !l.waits() {
			if _, diagnosis := unreachable(ctx, c.Lock, err); diagnosis != nil {
				err = fmt.Errorf("%w: %w", diagnosis, err)
			}
		}
		if misconfigured(err) {
			return exit{exitUsage, fmt.Errorf("%w\nCorrect the lock section of the configuration, or the account; 'scheduler doctor' examines it", err)}
		}
		return fmt.Errorf("%w\nSee that the lock service runs, and that its address and account are right; 'scheduler doctor' examines it", err)
	case errors.Is(err, locks.ErrRecovering):
		return fmt.Errorf("%w\nIt grants again after lock.ttl, %v; a --wait that is longer waits for that", err, c.Lock.TTL)
	case errors.Is(err, locks.ErrUnknown):
		return fmt.Errorf("%w\nThe command was not run. If the lock was granted, it is free again after lock.ttl, %v, at most: try again then", err, c.Lock.TTL)
	case errors.Is(err, locks.ErrBusy):
		waited := ""
		if l.wait > 0 {
			waited = fmt.Sprintf("not its turn within %v: ", l.wait)
		}
		if holder := a.holders(ctx, locker, l.request.Key); holder != "" {
			return exit{exitBusy, fmt.Errorf("%s%s", waited, holder)}
		}
		return exit{exitBusy, fmt.Errorf("%s%w", waited, err)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return exit{exitBusy, err}
	case errors.Is(err, errors.ErrUnsupported):
		return l.unsupported(c, locker.Caps().Name)
	}
	return usageError{err} // the request is refused
}

// unsupported is the refusal of a kind that the lock service lacks.
func (l lockedCommand) unsupported(c *config.Config, backend string) error {
	flag, kind, others := "--limit", "limits", "redis, zookeeper, mysql with mode lease, and sqlite have them"
	if l.request.Mode == locks.Shared {
		flag, kind, others = "--shared", "shared locks", "all but mysql with mode row have them"
	}
	advice := "leave the flag out, or use another lock service: " + others
	if c.Lock.Driver == config.MySQL {
		advice = "leave the flag out, or set lock.mysql.mode: lease in all files that use these locks"
	}
	return usagef("%s: the lock service of the configuration, %s, has no %s; %s", flag, backend, kind, advice)
}
