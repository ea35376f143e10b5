package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/metrics"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// parts are the store and the lock service of a replica, and what to close.
type parts struct {
	store   *store.Store
	metrics *metrics.Metrics
	locker  *locks.Locker       // nil: the lock service is the store's own database
	users   *locks.Locker       // of the keys of jobs, commands and programs: locker, or one on tables of the store's database
	service string              // name of the lock service
	file    sqlitefile.Database // that users lock in; nil: none
	lockErr error               // error of the lock service at the start; nil: it answered
	closers []func(context.Context) error
}

// openParts opens the store and the lock service that c names. A store that cannot be reached is an error after 10 s
// that names its address; so is a lock service that answers and cannot be used. An unreachable lock service is no
// error: see lockErr.
func openParts(ctx context.Context, c *config.Config) (_ *parts, err error) {
	p := &parts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(ctx))
		}
	}()
	began := time.Now()
	if p.store, err = openStore(ctx, c.Store); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("no answer within %v: %w", time.Since(began).Round(time.Second), err)
		}
		return nil, err
	}
	p.closers = append(p.closers, func(context.Context) error { return p.store.Close() })
	p.metrics = metrics.New(p.store, metrics.Options{Version: version()})
	if c.Store.Migrate == "auto" {
		err = p.store.Migrate(ctx)
	} else {
		err = p.store.CheckSchema(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err = p.openLock(ctx, c); err == nil {
		err = p.openUserLocks(ctx, c, locks.Options{Owner: c.Replica.ID, Observer: p.metrics})
	}
	if err == nil {
		return p, nil
	}
	if p.locker == nil {
		return nil, err
	}
	transient, diagnosis := unreachable(ctx, c.Lock, err)
	switch {
	case diagnosis != nil:
		err = fmt.Errorf("%w: %w", diagnosis, err)
		return nil, err
	case !transient:
		return nil, err
	}
	p.lockErr, err = err, nil
	return p, nil
}

// openLock opens the lock service that c names, unless that is the store.
func (p *parts) openLock(ctx context.Context, c *config.Config) error {
	namespace, err := c.Set.Name, error(nil)
	if !c.LockInStore() { // the store's rows need no namespace, and there may be no tables yet
		if namespace, err = p.namespace(ctx, c); err != nil {
			return err
		}
	}
	if p.service, err = lockService(c, namespace); err != nil || c.LockInStore() {
		return err
	}
	if p.locker, err = p.newLocker(ctx, c, locks.Options{Namespace: namespace, Owner: c.Replica.ID, Observer: p.metrics}); err != nil {
		return err
	}
	p.users = p.locker
	return p.tryLock(ctx, c.Lock)
}

// namespace is that of the keys.
func (p *parts) namespace(ctx context.Context, c *config.Config) (string, error) {
	if c.Set.Name != "" {
		return c.Set.Name, nil
	}
	return p.store.Namespace(ctx)
}

// openUserLocks makes the Locker of user keys if locks are the store's rows. It makes no call: a replica whose users lock
// nothing has no session.
func (p *parts) openUserLocks(ctx context.Context, c *config.Config, o locks.Options) (err error) {
	if p.users != nil {
		return nil
	}
	if o.Namespace, err = p.namespace(ctx, c); err != nil {
		return err
	}
	p.users, err = p.newLocker(ctx, c, o)
	return err
}

// newLocker makes a Locker on the lock service that c names, without a call.
func (p *parts) newLocker(ctx context.Context, c *config.Config, o locks.Options) (*locks.Locker, error) {
	drv, err := p.newDriver(ctx, c)
	if err != nil {
		return nil, err
	}
	o.TTL = c.Lock.TTL
	locker, err := locks.New(drv, o)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, locker.Close)
	return locker, nil
}

// newDriver makes a driver of the lock service that c names, with connections of its own, and without a call.
func (p *parts) newDriver(ctx context.Context, c *config.Config) (driver.Driver, error) {
	switch l := c.Lock; l.Driver {
	case config.Redis:
		rdb := openRedis(l.Redis)
		p.closers = append(p.closers, func(context.Context) error { return rdb.Close() })
		return redislock.New(rdb), nil
	case config.Quorum:
		clients := openQuorum(l.Quorum)
		for _, rdb := range clients {
			p.closers = append(p.closers, func(context.Context) error { return rdb.Close() })
		}
		return quorumlock.New(clients, quorumlock.Options{}), nil
	case config.ZooKeeper:
		return openZooKeeper(l.ZooKeeper), nil
	case config.MySQL:
		db, err := sqllock.Open(l.MySQL.DSN, l.MySQL.TLS)
		if err != nil {
			return nil, fmt.Errorf("lock.mysql.dsn: %w", err)
		}
		p.closers = append(p.closers, func(context.Context) error { return db.Close() })
		return sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Mode(l.MySQL.Mode), TablePrefix: c.Store.TablePrefix}), nil
	case config.SQLite:
		db, err := p.openFile(ctx, c.Store.DSN)
		if err != nil {
			return nil, fmt.Errorf("locks in %s: %w", c.Store.DSN, err)
		}
		return sqllock.New(db, sqllock.SQLite, sqllock.Options{TablePrefix: c.Store.TablePrefix}), nil
	default:
		return nil, fmt.Errorf("lock.driver %q: there is no such backend", l.Driver)
	}
}

// openFile opens the file of a SQLite store once more, for locks.
func (p *parts) openFile(ctx context.Context, path string) (*sql.DB, error) {
	opener, err := sqlitefile.Registered()
	if err != nil {
		return nil, err
	}
	file, err := opener.Open(path, 1)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func(context.Context) error { return file.Close() })
	p.file = file
	db := file.Pools().Writer
	db.SetConnMaxLifetime(time.Second) // a new connection is refused once the file was replaced: others lock in another one
	return db, file.Hold(ctx)
}

// holds returns an error once the file that users lock in was deleted or replaced: others may lock in another one.
func (p *parts) holds() error {
	if p.file == nil {
		return nil
	}
	return p.file.Holds()
}

// whileHeld is ctx until the file that users lock in was deleted or replaced:
//
//  1. look at the file, after a short time
//  2. end the context if another one is there
//
// end returns once nothing looks any more.
func (p *parts) whileHeld(ctx context.Context) (_ context.Context, end func()) {
	held, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	if p.file != nil {
		looking.Go(func() {
			for p.holds() == nil {
				select {
				case <-held.Done():
					return
				case <-time.After(mostPause):
				}
			}
			cancel()
		})
	}
	return held, func() { cancel(); looking.Wait() }
}

// whileDown describes what happens while the lock service is down.
func whileDown(whenDown string) string {
	if whenDown == string(scheduler.DownWait) {
		return "nothing starts"
	}
	return "the store's rows decide alone, and jobs with locks wait"
}

// lockTimeout bounds the wait for the lock service at the start.
const lockTimeout = 6 * time.Second

// probeAfter is the delay after which its servers are probed.
const probeAfter = time.Second

// tryLock checks at the start that the lock service can be used. A slow one is retried until lockTimeout.
func (p *parts) tryLock(ctx context.Context, l config.Lock) error {
	began := time.Now()
	for {
		err := p.ready(ctx, l)
		switch {
		case err == nil, errors.Is(err, locks.ErrRecovering):
			return nil
		case !errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil, time.Since(began) > lockTimeout-2*time.Second:
			return fmt.Errorf("lock service %s: %w", p.service, err)
		}
	}
}

// ready checks the lock service once. While it waits the servers are probed, and another kind of server ends the call:
// the MySQL client waits 5 s for a greeting that a Redis never sends.
func (p *parts) ready(ctx context.Context, l config.Lock) error {
	calling, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	var wrong error
	var probing sync.WaitGroup
	probing.Go(func() {
		select {
		case <-time.After(probeAfter):
			if wrong = checkServers(calling, l, probeTimeout); wrong != nil {
				cancel()
			}
		case <-calling.Done():
		}
	})
	err := p.locker.Connect(calling)
	cancel()
	probing.Wait()
	if err != nil && wrong != nil {
		return wrong
	}
	return err
}

func openRedis(r config.RedisLock) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs: r.Addrs, Username: r.Username, Password: r.Password, DB: r.DB,
		MasterName: r.MasterName, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		TLSConfig: r.TLS, IsClusterMode: r.Mode == "cluster",
	}
	redis.SetLogger(silent{}) // errors are returned
	return redis.NewUniversalClient(o)
}

// openQuorum makes a client of each server.
func openQuorum(q config.QuorumLock) (clients []redis.UniversalClient) {
	redis.SetLogger(silent{}) // errors are returned
	for _, addr := range q.Addrs() {
		clients = append(clients, redis.NewClient(&redis.Options{
			Addr: addr, Username: q.Username, Password: q.Password, DB: q.DB, TLSConfig: q.TLS, DialerRetries: 1, MaxRetries: -1,
		}))
	}
	return clients
}

func openZooKeeper(z config.ZooKeeperLock) *zklock.Driver {
	return zklock.New(z.Servers, zklock.Options{Root: z.Root, SessionTimeout: z.SessionTimeout, Auth: z.Auth, Insecure: z.Unguarded, TLS: z.TLS})
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Inspect lists the leases; when locks are the store's rows, those of user keys.
func (p *parts) Inspect(ctx context.Context, prefix string) iter.Seq2[driver.Info, error] {
	return p.users.Inspect(ctx, prefix)
}

// InspectAfter is Inspect of the keys behind one.
func (p *parts) InspectAfter(ctx context.Context, prefix, after string) iter.Seq2[driver.Info, error] {
	return p.users.InspectAfter(ctx, prefix, after)
}

// ForceRelease takes a key from its holder.
func (p *parts) ForceRelease(ctx context.Context, key string, token driver.Token) (bool, error) {
	return p.users.ForceRelease(ctx, key, token)
}

// close closes everything, the last opened first.
func (p *parts) close(ctx context.Context) error { return errors.Join(p.closeEach(ctx)...) }

// closeDrained is close for a replica that has ended its work. It only warns of a lock session that could not be ended, as the lock
// service is away: the session holds nothing that is waited for, and expires.
func (p *parts) closeDrained(ctx context.Context, ttl time.Duration, log *slog.Logger) error {
	var errs []error
	for _, err := range p.closeEach(ctx) {
		if errors.Is(err, locks.ErrUnavailable) {
			log.Warn("lock session not ended; it expires after lock.ttl", "ttl", ttl.String(), "error", err)
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *parts) closeEach(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	var errs []error
	for _, closer := range slices.Backward(p.closers) {
		errs = append(errs, closer(ctx))
	}
	return errs
}

// replica returns the scheduler that c describes, whose file was written then.
func (p *parts) replica(c *config.Config, written time.Time, address string, log *slog.Logger) (*scheduler.Scheduler, error) {
	var lk scheduler.Locks // nil, unless there is a locker
	if p.locker != nil {
		lk = p.locker
	}
	o := c.Replica
	o.WhenDown, o.LockService, o.Retention = scheduler.WhenDown(c.Lock.WhenDown), p.service, c.Store.Retention
	o.JobLocks, o.ConfigAt = p.users, written
	o.Version, o.Address, o.Logger, o.Observer = version(), address, log, p.metrics
	return scheduler.New(p.store, lk, c.Set, o)
}
