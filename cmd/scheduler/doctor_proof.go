package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// ttlOfProof is the ttl of the sessions of a proof: short, since it is waited for, and half of the usual one, so that sessions
// of others are renewed within it: if Redis loses its data meanwhile, it waits for as long before it grants.
func ttlOfProof(usual time.Duration) time.Duration {
	return min(usual, min(max(usual/2, 3*time.Second), 5*time.Second))
}

const (
	// proofSlack is how much later than its ttl an expired session may free its keys: ZooKeeper looks at each tick.
	proofSlack = 3 * time.Second
	// proofWait is how much later than its release a lock may be granted to the one that waits.
	proofWait = 10 * time.Second
	// proofLimit bounds a proof.
	proofLimit = 30 * time.Second
	// proofLook is how often something is looked for.
	proofLook = 20 * time.Millisecond
)

// broken is an error that disproves what a lock service must guarantee.
type broken struct{ error }

func brokenf(format string, args ...any) error { return broken{fmt.Errorf(format, args...)} }

// trial is a proof with clients of their own connections, which use one key that nothing else uses.
type trial struct {
	key     string
	caps    driver.Caps
	open    func(ctx context.Context) (*trialClient, error) // a client whose session is not renewed yet
	clients []*trialClient
	last    driver.Token // the highest so far
}

// prove proves with real clients that locks exclude, that those who wait are served in order, and that a lost client loses
// its lock in time; and says what the service does not have.
func (e *examination) prove(ctx context.Context, c *config.Config, p *parts) {
	ctx, cancel := context.WithTimeout(ctx, proofLimit)
	defer cancel()
	if c.LockInStore() && c.Store.Driver == config.SQLite {
		beside, remove, err := scratchFile(ctx, c)
		if err != nil {
			e.add("lock", levelWarning, "", "not proved: %v", err)
			return
		}
		defer remove()
		c = beside
	}
	namespace, err := p.namespace(ctx, c)
	if err != nil {
		return // there are no tables yet, which is said
	}
	began := time.Now()
	t := &trial{key: "user/doctor/" + rand.Text()}
	t.open = func(ctx context.Context) (*trialClient, error) { return openTrialClient(ctx, c, namespace) }
	defer t.close(ctx)
	if err = t.begin(ctx); err == nil {
		t.caps = t.clients[0].caps
		for _, prove := range []func(context.Context) (string, error){t.exclusion, t.order, t.loss} {
			var proved string
			if proved, err = prove(ctx); err != nil {
				break
			}
			e.add("lock", levelOK, "", "%s", proved)
		}
	}
	wrong, disproved := errors.AsType[broken](err)
	switch {
	case err == nil:
		if c.LockInStore() {
			e.add("lock", levelOK, "", "locks of jobs and of 'locks exec' are %s", capabilities(t.caps))
		}
		e.add("lock", levelOK, "", "proved in %v, with clients of %s that used the key %s", time.Since(began).Round(100*time.Millisecond), t.caps.Name, t.key)
	case disproved:
		e.add("lock", levelProblem, "do not rely on locks of this service; rows and fencing tokens decide", "disproved: %v", wrong)
	case errors.Is(err, driver.ErrRecovering):
		e.add("lock", levelWarning, fmt.Sprintf("run doctor again after lock.ttl, %v", c.Lock.TTL), "not proved: %v", err)
	case c.LockInStore():
		e.add("lock", levelWarning, "grant what it says, if jobs or commands use locks; replicas do without", "locks of jobs and of 'locks exec' cannot be used: %v", err)
	default:
		e.add("lock", levelProblem, "", "not proved: %v", err)
	}
}

// scratchFile is a configuration whose locks are in a new file beside that of the store: on the same disk, and without a write
// to a database that a replica uses, or whose log is not its own.
func scratchFile(ctx context.Context, c *config.Config) (_ *config.Config, remove func(), err error) {
	beside := *c
	beside.Store.DSN = filepath.Join(filepath.Dir(c.Store.DSN), ".lockstep-doctor-"+rand.Text())
	beside.Set.Name = "doctor"
	remove = func() {
		for _, end := range []string{"", "-wal", "-shm", "-turn"} {
			_ = os.Remove(beside.Store.DSN + end)
		}
	}
	var p parts
	db, err := p.openFile(ctx, beside.Store.DSN)
	if err == nil {
		_, err = db.ExecContext(ctx, "PRAGMA journal_mode=WAL") // as the store's
	}
	if err = errors.Join(err, p.close(ctx)); err != nil {
		remove()
		return nil, nil, err
	}
	return &beside, remove, nil
}

// begin opens three clients, and renews their sessions.
func (t *trial) begin(ctx context.Context) error {
	for range 3 {
		c, err := t.open(ctx)
		if err != nil {
			return err
		}
		t.clients = append(t.clients, c)
		c.renew(ctx)
	}
	return nil
}

func (t *trial) close(ctx context.Context) {
	for _, c := range t.clients {
		c.close(context.WithoutCancel(ctx))
	}
}

// try asks for the key once.
func (t *trial) try(ctx context.Context, c *trialClient) (driver.Result, error) {
	results, err := c.TryAcquire(ctx, rand.Text(), []driver.Want{{Key: t.key, Meta: "a proof of doctor"}})
	if err != nil {
		return driver.Result{}, err
	}
	return results[0], results[0].Err
}

// granted checks the token of a grant.
func (t *trial) granted(token driver.Token) (driver.Held, error) {
	if token <= t.last {
		return driver.Held{}, brokenf("the fencing token %d was granted after %d: tokens must grow", token, t.last)
	}
	t.last = token
	return driver.Held{Key: t.key, Token: token}, nil
}

// take tries to get the key, which must be free.
func (t *trial) take(ctx context.Context, c *trialClient) (driver.Held, error) {
	r, err := t.try(ctx, c)
	if err != nil {
		return driver.Held{}, err
	}
	if r.Token == 0 {
		return driver.Held{}, brokenf("a free key was not granted")
	}
	return t.granted(r.Token)
}

// exclusion: while one client holds the key, another one does not get it; after the release it does.
func (t *trial) exclusion(ctx context.Context) (string, error) {
	a, b := t.clients[0], t.clients[1]
	held, err := t.take(ctx, a)
	if err != nil {
		return "", err
	}
	for range 3 {
		if err := t.refused(ctx, b); err != nil {
			return "", err
		}
	}
	if err := a.Release(ctx, []driver.Held{held}); err != nil {
		return "", err
	}
	if held, err = t.take(ctx, b); err != nil {
		return "", err
	}
	if err := b.Release(ctx, []driver.Held{held}); err != nil {
		return "", err
	}
	return "exclusion: while one client held a lock, another one did not get it; after its release it did, with a larger fencing token", nil
}

// refused tries to get the key, which another one must hold.
func (t *trial) refused(ctx context.Context, c *trialClient) error {
	r, err := t.try(ctx, c)
	if err == nil && r.Token != 0 {
		err = brokenf("two clients held one key at the same time, with the fencing tokens %d and %d", t.last, r.Token)
	}
	return err
}

// order: two clients that wait get the key in the order in which they came, and a try does not overtake them.
func (t *trial) order(ctx context.Context) (string, error) {
	if !t.caps.FIFO {
		return "order: not promised by this service: a newcomer may get a lock before those who wait", nil
	}
	a, waiters := t.clients[0], t.clients[1:]
	held, err := t.take(ctx, a)
	if err != nil {
		return "", err
	}
	var places []driver.Place
	for _, c := range waiters {
		place := driver.Place{Acquisition: rand.Text(), Key: t.key}
		results, err := c.queue.Acquire(ctx, place.Acquisition, nil, []driver.Want{{Key: t.key}})
		switch {
		case err != nil:
			return "", err
		case results[0].Token != 0:
			return "", brokenf("two clients held one key at the same time, with the fencing tokens %d and %d", t.last, results[0].Token)
		case !results[0].Queued:
			return "", fmt.Errorf("no place in the queue: %w", results[0].Err)
		}
		places = append(places, place)
	}
	var longest time.Duration
	for holder := a; len(places) > 0; waiters, places = waiters[1:], places[1:] {
		began := time.Now()
		if err := holder.Release(ctx, []driver.Held{held}); err != nil {
			return "", err
		}
		token, err := t.turn(ctx, waiters, places)
		if err != nil {
			return "", err
		}
		longest = max(longest, time.Since(began))
		if held, err = t.granted(token); err != nil {
			return "", err
		}
		if err := t.refused(ctx, a); err != nil {
			return "", err
		}
		holder = waiters[0]
	}
	if err := t.clients[2].Release(ctx, []driver.Held{held}); err != nil {
		return "", err
	}
	return fmt.Sprintf("order: two clients that waited were served in the order in which they came, each within %v of the release", longest.Round(time.Millisecond)), nil
}

// turn waits for the grant of the first of those who wait:
//
//  1. look at their places, the first one last: meanwhile it may be granted; no other one may have the key
//  2. wait for a notification, or a short time
//
// That it is not granted is told by a look which began late enough: this process may have stood still.
func (t *trial) turn(ctx context.Context, waiters []*trialClient, places []driver.Place) (driver.Token, error) {
	latest := time.Now().Add(proofWait)
	for {
		asked := time.Now()
		var tokens []driver.Token
		for i, c := range slices.Backward(waiters) {
			results, err := c.queue.Look(ctx, places[i:i+1])
			if err != nil {
				return 0, err
			}
			tokens = append(tokens, results[0].Token)
			if i > 0 && results[0].Token != 0 {
				return 0, brokenf("a client that came later was served before one that waited longer")
			}
		}
		if first := tokens[len(tokens)-1]; first != 0 {
			return first, nil
		}
		if asked.After(latest) {
			return 0, brokenf("a released lock was not granted to the one that waited, within %v", proofWait)
		}
		select {
		case <-waiters[0].queue.Granted():
		case <-time.After(proofLook):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// loss: a client that does not renew its session any more loses the key.
//
//  1. one client gets the key, and is silent from then on
//  2. another one tries, until it gets the key: not before the first one has stopped to trust its lease, and soon after the
//     end of its session, as a try tells which began late enough: this process may have stood still
//  3. the first one, if it can be asked, is told that it does not hold the key
func (t *trial) loss(ctx context.Context) (string, error) {
	asked := time.Now()
	lost, err := t.open(ctx)
	if err != nil {
		return "", err
	}
	t.clients = append(t.clients, lost)
	held, err := t.take(ctx, lost)
	if err != nil {
		return "", err
	}
	lost.cut()
	silent := time.Now()
	ttl := lost.TTL()
	trusted := asked.Add(ttl - max(ttl/100, 50*time.Millisecond) - t.caps.TrustMargin)
	next := t.clients[1]
	var got driver.Result
	for latest := silent.Add(ttl + proofSlack); got.Token == 0; {
		select {
		case <-time.After(proofLook):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		tried := time.Now()
		if got, err = t.try(ctx, next); err != nil {
			return "", err
		}
		if got.Token == 0 && tried.After(latest) {
			return "", brokenf("the lock of a client that has not renewed it for %v was not granted to another one, with a ttl of %v", tried.Sub(silent).Round(time.Millisecond), ttl)
		}
	}
	if early := time.Until(trusted); early > 0 {
		return "", brokenf("another client got the lock %v before the holder stopped to trust its lease", early.Round(time.Millisecond))
	}
	after := time.Since(silent).Round(10 * time.Millisecond)
	mine, err := t.granted(got.Token)
	if err != nil {
		return "", err
	}
	if still, err := lost.Check(ctx, []driver.Held{held}); err == nil && still[0] && !lost.isCut() {
		return "", brokenf("a client that lost its lock is told that it holds it")
	}
	if err := next.Release(ctx, []driver.Held{mine}); err != nil {
		return "", err
	}
	return fmt.Sprintf("loss: the lock of a client that did not renew it, with a ttl of %v, was granted to another one after %v: not before the first had stopped to trust it", ttl, after), nil
}
