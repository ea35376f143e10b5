package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/mysqlconn"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/metrics"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// parts is what one replica is made of: a store, a lock service, and what to close, in order.
type parts struct {
	store   *store.Store
	metrics *metrics.Metrics
	locker  *locks.Locker // nil: the lock service is the store's own database
	service string        // fingerprint of the lock service
	away    error         // why the lock service could not be reached at the start; nil: it answered
	closers []func(context.Context) error
}

// openParts opens what c names. Within 10 s a store that cannot be reached is an error that names its address, and so is a
// lock service that answers and cannot be used. One that is away is no error: see parts.away.
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
		return p, nil
	}
	if p.locker == nil {
		return nil, err
	}
	gone, answer := away(ctx, c.Lock, err)
	switch {
	case answer != nil:
		err = fmt.Errorf("%w: %w", answer, err)
		return nil, err
	case !gone:
		return nil, err
	}
	p.away, err = err, nil
	return p, nil
}

// openLock opens the lock service that c names, unless that is the store.
func (p *parts) openLock(ctx context.Context, c *config.Config) error {
	namespace := c.Set.Name
	if namespace == "" && !c.LockInStore() { // whose rows need none, and which may have no tables yet
		minted, err := p.store.Namespace(ctx)
		if err != nil {
			return err
		}
		namespace = minted
	}
	var err error
	if p.service, err = fingerprint(c, namespace); err != nil || c.LockInStore() {
		return err
	}
	l := c.Lock
	var drv driver.Driver
	switch l.Driver {
	case config.Redis:
		rdb := openRedis(l.Redis)
		p.closers = append(p.closers, func(context.Context) error { return rdb.Close() })
		drv = redislock.New(rdb)
	case config.ZooKeeper:
		drv = openZooKeeper(l.ZooKeeper)
	case config.MySQL:
		db, err := sqllock.Open(l.MySQL.DSN, l.MySQL.TLS)
		if err != nil {
			return fmt.Errorf("lock.mysql.dsn: %w", err)
		}
		p.closers = append(p.closers, func(context.Context) error { return db.Close() })
		drv = sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Mode(l.MySQL.Mode), TablePrefix: c.Store.TablePrefix})
	}
	locker, err := locks.New(drv, locks.Options{TTL: l.TTL, Namespace: namespace, Owner: c.Replica.ID, Metrics: p.metrics})
	if err != nil {
		return err
	}
	p.locker = locker
	p.closers = append(p.closers, locker.Close)
	return p.tryLock(ctx, l)
}

// untilThere says what becomes of work while the lock service is away.
func untilThere(whenDown string) string {
	if whenDown == string(scheduler.DownWait) {
		return "nothing starts"
	}
	return "the store's rows decide alone, and jobs with locks wait"
}

// lockTimeout bounds how long a lock service that does not answer holds up a start.
const lockTimeout = 6 * time.Second

// lockPatience is how long it may take until it is asked what kind of server answers there.
const lockPatience = time.Second

// tryLock asks the lock service whether it answers, and would do: what only somebody can change ends the start. One
// that is slow is asked again.
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

// ready asks the lock service once. What lets it wait is looked at meanwhile, and another kind of server ends the call:
// the client of MySQL waits 5 s for a greeting where a Redis waits for the client's first word.
func (p *parts) ready(ctx context.Context, l config.Lock) error {
	calling, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	var wrong error
	var look sync.WaitGroup
	look.Go(func() {
		select {
		case <-time.After(lockPatience):
			if wrong = checkServers(calling, l); wrong != nil {
				cancel()
			}
		case <-calling.Done():
		}
	})
	err := p.locker.Ready(calling)
	cancel()
	look.Wait()
	if err != nil && wrong != nil {
		return wrong
	}
	return err
}

// fingerprint is equal for two replicas if, and only if, they lock at the same place in the same way.
func fingerprint(c *config.Config, namespace string) (string, error) {
	if c.LockInStore() {
		return scheduler.StoreLocks, nil
	}
	var place string
	switch l := c.Lock; l.Driver {
	case config.Redis:
		place = fmt.Sprintf("redis %s, mode %s, db %d", sorted(l.Redis.Addrs), l.Redis.Mode, l.Redis.DB)
		if l.Redis.MasterName != "" {
			place += ", master " + l.Redis.MasterName
		}
	case config.ZooKeeper:
		place = "zookeeper " + sorted(l.ZooKeeper.Servers) + l.ZooKeeper.Root
	case config.MySQL:
		d, err := mysqlconn.Parse(l.MySQL.DSN)
		if err != nil {
			return "", fmt.Errorf("lock.mysql.dsn: %w", err)
		}
		place = fmt.Sprintf("mysql %s/%s, mode %s", d.Addr, d.DBName, l.MySQL.Mode)
	default:
		return "", fmt.Errorf("lock.driver %q does not go with store.driver %q", l.Driver, c.Store.Driver)
	}
	return place + ", namespace " + namespace, nil
}

func sorted(addrs []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(addrs))), ",")
}

func openRedis(r config.RedisLock) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs: r.Addrs, Username: r.Username, Password: r.Password, DB: r.DB,
		MasterName: r.MasterName, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		TLSConfig: r.TLS, IsClusterMode: r.Mode == "cluster",
	}
	redis.SetLogger(silent{}) // what goes wrong is in the errors, and ours is the log
	return redis.NewUniversalClient(o)
}

func openZooKeeper(z config.ZooKeeperLock) *zklock.Driver {
	return zklock.New(z.Servers, zklock.Options{Root: z.Root, SessionTimeout: z.SessionTimeout, Auth: z.Auth, TLS: z.TLS})
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Inspect shows who holds what; with the store's own rows as guards nobody holds anything for long.
func (p *parts) Inspect(ctx context.Context, prefix string) iter.Seq2[driver.Info, error] {
	if p.locker == nil {
		return func(func(driver.Info, error) bool) {}
	}
	return p.locker.Inspect(ctx, prefix)
}

// close closes everything, the last opened first.
func (p *parts) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	var errs []error
	for _, closer := range slices.Backward(p.closers) {
		errs = append(errs, closer(ctx))
	}
	return errors.Join(errs...)
}

// replica makes the scheduler that c describes.
func (p *parts) replica(c *config.Config, address string, log *slog.Logger) (*scheduler.Scheduler, error) {
	return scheduler.New(p.store, p.locks(), c.Set, scheduler.Options{
		ID: c.Replica.ID, Workers: c.Replica.Workers, Labels: c.Replica.Labels,
		SessionTTL: c.Replica.SessionTTL, DrainTimeout: c.Replica.DrainTimeout, MaxClockSkew: c.Replica.MaxClockSkew,
		WhenDown: scheduler.WhenDown(c.Lock.WhenDown), LockService: p.service,
		Retention: c.Store.Retention,
		Version:   version(), Address: address, Logger: log,
		Metrics: p.metrics,
	})
}

func (p *parts) locks() scheduler.Locks {
	if p.locker == nil {
		return nil
	}
	return p.locker
}
