package quorumlock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// quick is for servers that a test has just started.
var quick = Options{NodeTimeout: time.Second, NoGracePeriod: true}

const ttl = 3 * time.Second

func open(t *testing.T, d driver.Driver) *session {
	t.Helper()
	s, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl, Owner: "owner"})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

// ask tries once for a key.
func ask(t *testing.T, s driver.Session, w driver.Want) (driver.Result, error) {
	t.Helper()
	return askAs(t, s, rand.Text(), w)
}

// askAs is ask under an id, for those that go on after an unknown outcome.
func askAs(t *testing.T, s driver.Session, id string, w driver.Want) (driver.Result, error) {
	t.Helper()
	results, err := s.TryAcquire(t.Context(), id, []driver.Want{w})
	if err != nil {
		return driver.Result{}, err
	}
	return results[0], results[0].Err
}

// take gets a key that must be free.
func take(t *testing.T, s driver.Session, key string) driver.Held {
	t.Helper()
	r, err := ask(t, s, driver.Want{Key: key})
	if err != nil || r.Token == 0 {
		t.Fatalf("%s: %+v, %v, want it granted", key, r, err)
	}
	return driver.Held{Key: key, Token: r.Token}
}

// within waits until a key is granted.
func within(t *testing.T, s driver.Session, key string) (held driver.Held) {
	t.Helper()
	id := rand.Text()
	await.Until(t, key+" is granted", func() bool {
		_ = lockstest.Renew(t.Context(), s)
		r, err := askAs(t, s, id, driver.Want{Key: key})
		held = driver.Held{Key: key, Token: r.Token}
		return err == nil && r.Token > 0
	})
	return held
}

func renew(t *testing.T, s driver.Session) {
	t.Helper()
	if err := lockstest.Renew(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func free(t *testing.T, s driver.Session, held driver.Held) {
	t.Helper()
	if err := s.Release(t.Context(), []driver.Held{held}); err != nil {
		t.Fatal(err)
	}
}

// reaches leaves a client the servers with these indexes.
func (w *wired) reaches(servers ...int) {
	var some mask
	for _, i := range servers {
		some = some.with(i)
	}
	for i, one := range w.wires {
		if some.has(i) {
			one.Mend()
		} else {
			one.Cut()
		}
	}
}

// on counts what a server keeps of a key.
func on(t *testing.T, srv *servers.RedisServer, key string) int {
	t.Helper()
	fields, err := client(t, srv.Addr, nil).ZRange(t.Context(), keysOf("n")[4], 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, field := range fields {
		if strings.HasPrefix(field, key+" ") {
			count++
		}
	}
	return count
}

// Two of five servers may be dead, three may not; what comes back after that is granted under a larger token.
func TestDeadServers(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	s := open(t, wire(t, group, quick))
	first := take(t, s, "a")
	group[0].Kill()
	group[3].Kill()
	renew(t, s)
	second := take(t, s, "b")
	lockstest.Holds(t, s, first, true)
	free(t, s, first)
	first = take(t, s, "a")

	group[4].Kill()
	await.Until(t, "renew says that no majority can be reached, and names the servers", func() bool {
		err := lockstest.Renew(t.Context(), s)
		return errors.Is(err, driver.ErrUnreachable) && strings.Contains(err.Error(), group[4].Addr)
	})
	await.Until(t, "it is known that nothing can be sent", func() bool {
		_, err := ask(t, s, driver.Want{Key: "c"})
		return errors.Is(err, driver.ErrUnreachable)
	})
	if _, err := s.Check(t.Context(), []driver.Held{second}); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("check without a majority: %v", err)
	}
	for _, i := range []int{0, 3, 4} {
		group[i].Start()
	}
	next := open(t, wire(t, group, Options{NodeTimeout: time.Second}))
	if _, err := ask(t, next, driver.Want{Key: "c"}); !errors.Is(err, driver.ErrRecovering) {
		t.Errorf("three of five have forgotten all: %v, want ErrRecovering", err)
	}
	if held := within(t, next, "a"); held.Token <= first.Token {
		t.Errorf("token %d after %d", held.Token, first.Token)
	}
}

// A minority that has voted gives the votes back when no majority can be reached, and nobody waits for them.
func TestAMinorityIsReleased(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a, b := wire(t, group, quick), wire(t, group, quick)
	s, other := open(t, a), open(t, b)
	a.reaches(0, 1)
	await.Until(t, "it is known that nothing can be sent to a majority", func() bool { // after the first time it may have been
		_, err := s.TryAcquire(t.Context(), "id", lockstest.Wants("a"))
		return errors.Is(err, driver.ErrUnreachable)
	})
	await.Until(t, "the votes are given back", func() bool { return on(t, group[0], "a")+on(t, group[1], "a") == 0 })
	take(t, other, "a")
}

// A release or an eviction that has reached a minority may have done its work there: its outcome is unknown, and the key counts as
// released.
func TestAMinorityMayHaveFreedIt(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a := wire(t, group, quick)
	s := open(t, a)
	held := take(t, s, "a")
	a.reaches(0, 1)
	outcomes := func() []error {
		_, evicting := s.Evict(t.Context(), "a", held.Token)
		return []error{evicting, s.Release(t.Context(), []driver.Held{held}), s.Abandon(t.Context(), "id", []string{"a"})}
	}
	outcomes() // from now on it is known that three servers cannot be reached
	for i, err := range outcomes()[:2] {
		if err == nil || errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s: %v, want an outcome that is unknown", []string{"evict", "release"}[i], err)
		}
	}
	if n := on(t, group[0], "a") + on(t, group[1], "a"); n != 0 {
		t.Errorf("it is on %d of the servers that were reached", n)
	}
	a.reaches(0, 1, 2, 3, 4)
	renew(t, s)
	lockstest.Holds(t, s, held, false)
	free(t, s, held)
	take(t, open(t, wire(t, group, quick)), "a")
}

// A server that was restarted without its data does not vote for one TTL: else b would have a majority while a relies on its own.
func TestARestartedServerDoesNotVote(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	a, b := wire(t, group, quick), wire(t, group, Options{NodeTimeout: time.Second})
	holder, other := open(t, a), open(t, b)
	a.reaches(0, 1)
	held := take(t, holder, "a")
	asked := time.Now()
	renew(t, holder)
	group[1].Kill()
	group[1].Start()
	a.reaches(0) // it does not hear of that, and cannot bring back what it holds
	await.Until(t, "the server has learnt the last token", func() bool {
		_ = lockstest.Renew(t.Context(), other)
		return client(t, group[1].Addr, nil).HGet(t.Context(), keysOf("n")[0], "synced").Val() == "1"
	})
	b.reaches(1, 2)
	await.Until(t, "it is said that too few vote", func() bool {
		r, err := askAs(t, other, "id", driver.Want{Key: "a"})
		if r.Token > 0 {
			t.Fatalf("two hold it: granted %v after the other's renewal", time.Since(asked))
		}
		return errors.Is(err, driver.ErrRecovering)
	})
	if _, err := other.Evict(t.Context(), "a", held.Token); !errors.Is(err, driver.ErrRecovering) {
		t.Errorf("evict: %v, want ErrRecovering", err)
	}
	var granted driver.Held
	await.Until(t, "the key is granted", func() bool {
		_ = lockstest.Renew(t.Context(), other)
		r, err := askAs(t, other, "id", driver.Want{Key: "a"})
		granted = driver.Held{Key: "a", Token: r.Token}
		return err == nil && r.Token > 0
	})
	if after := time.Since(asked); after < ttl-ttl/100 {
		t.Errorf("two hold it: granted %v after the other's renewal, which may be trusted for nearly %v", after, ttl)
	}
	if granted.Token <= held.Token {
		t.Errorf("token %d after %d", granted.Token, held.Token)
	}
}

// While the holder reaches a server that was restarted, it brings back what it holds there, also if each server is restarted in turn.
func TestRestartedInTurn(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	s, other := open(t, wire(t, group, quick)), open(t, wire(t, group, quick))
	held := take(t, s, "a")
	for i, srv := range group {
		srv.Kill()
		renew(t, s)
		srv.Start()
		await.Until(t, "it has the key again, and votes", func() bool {
			renew(t, s)
			renew(t, other)
			votes := client(t, srv.Addr, nil).HGet(t.Context(), keysOf("n")[0], "synced").Val() == "1"
			return votes && on(t, srv, "a") == 1
		})
		lockstest.Holds(t, s, held, true)
		if r, err := ask(t, other, driver.Want{Key: "a"}); err == nil && r.Token > 0 {
			t.Fatalf("granted to another one after %d restarts", i+1)
		}
	}
}

// A key that was granted by a bare majority is brought to the others by the next renewal.
func TestRenewalsRepair(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a := wire(t, group, quick)
	s := open(t, a)
	a.reaches(0, 1, 2)
	held := take(t, s, "a")
	if n := on(t, group[4], "a"); n != 0 {
		t.Fatal("the last server has it already")
	}
	a.reaches(0, 1, 2, 3, 4)
	await.Until(t, "all servers have it", func() bool {
		renew(t, s)
		return on(t, group[3], "a")+on(t, group[4], "a") == 2
	})
	free(t, s, held)
	await.Until(t, "none has it", func() bool {
		renew(t, s)
		sum := 0
		for _, srv := range group {
			sum += on(t, srv, "a")
		}
		return sum == 0
	})
}

// A renewal does not count if a key is not on a majority of the servers that confirm it, though the session is: so the holder
// does not rely on it.
func TestARenewalCountsForEachKey(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	a := wire(t, group, quick)
	s := open(t, a)
	a.reaches(0, 1)
	take(t, s, "a")
	// Another one votes for a on the last server, so that it cannot be brought there.
	squatter := open(t, wire(t, group, quick))
	_, err := squatter.on(t.Context(), 2, voteScript, squatter.owner, "a", "x", 99, "", "")
	if err != nil {
		t.Fatal(err)
	}
	a.reaches(0, 2)
	if err := lockstest.Renew(t.Context(), s); err == nil || !strings.Contains(err.Error(), "have a,") {
		t.Errorf("renew: %v, want an error that names the key", err)
	}
	a.reaches(0, 1, 2)
	await.Until(t, "renewed", func() bool { return lockstest.Renew(t.Context(), s) == nil })
}

// Tokens grow from majority to majority, whatever the clocks say, also when a server forgets the largest.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	group := append([]*servers.RedisServer{clock.NewRedis(t)}, start(t, 4)...)
	a := wire(t, group, quick)
	s := open(t, a)
	last := driver.Held{Key: "a"}
	next := func(what string, servers ...int) {
		t.Helper()
		a.reaches(servers...)
		held := within(t, s, "a")
		if held.Token <= last.Token {
			t.Errorf("%s: token %d after %d", what, held.Token, last.Token)
		}
		last = held
		a.reaches(0, 1, 2, 3, 4)
		await.Until(t, "free", func() bool { return s.Release(t.Context(), []driver.Held{held}) == nil })
		renew(t, s)
	}
	next("the first", 0, 1, 2)
	if err := clock.Step(time.Hour); err != nil {
		t.Fatal(err)
	}
	renew(t, s) // its session there has expired
	next("with a server an hour ahead", 0, 1, 2)
	if ahead := time.UnixMicro(int64(last.Token)); time.Until(ahead) < 50*time.Minute {
		t.Fatalf("the token is of %v: the clock was not stepped", ahead)
	}
	for _, some := range [][]int{{2, 3, 4}, {0, 3, 4}, {1, 2, 3}, {0, 2, 4}, {1, 3, 4}} {
		next(fmt.Sprint("by ", some), some...)
	}
	next("before it is forgotten", 0, 1, 2)
	group[2].Kill()
	group[2].Start()
	other := wire(t, group, quick)
	other.reaches(2, 3, 4)
	heir := open(t, other)
	began := time.Now()
	await.Until(t, "time to have passed", func() bool {
		_ = lockstest.Renew(t.Context(), heir)
		r, err := askAs(t, heir, "id", driver.Want{Key: "a"})
		if err == nil && r.Token <= last.Token {
			t.Fatalf("token %d after %d: a majority of which one has forgotten it granted it", r.Token, last.Token)
		}
		return time.Since(began) > 2*ttl
	})
	other.reaches(1, 2, 3, 4) // a majority of those that have not
	await.Until(t, "granted", func() bool {
		_ = lockstest.Renew(t.Context(), heir)
		r, err := askAs(t, heir, "id", driver.Want{Key: "a"})
		if err == nil && r.Token > 0 && r.Token <= last.Token {
			t.Fatalf("token %d after %d", r.Token, last.Token)
		}
		return r.Token > 0
	})
}

// The clock of one server of five may step: it forgets whom it voted for, and four others do not.
func TestASteppedClock(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	group := append(start(t, 4), clock.NewRedis(t))
	sessions := []*session{open(t, wire(t, group, quick)), open(t, wire(t, group, quick)), open(t, wire(t, group, quick))}
	last := driver.Held{Key: "a"}
	for n, step := range []time.Duration{time.Hour, 0, -time.Hour, 0, 5 * time.Second, -5 * time.Second, 0} {
		holder := sessions[n%len(sessions)]
		held := within(t, holder, "a")
		if held.Token <= last.Token {
			t.Errorf("token %d after %d", held.Token, last.Token)
		}
		last = held
		if err := clock.Step(step); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < ttl/2; {
			for i, s := range sessions {
				renew(t, s)
				if r, err := ask(t, s, driver.Want{Key: "a"}); err == nil && r.Token > 0 {
					t.Fatalf("after a step to %v, %d was granted what %d holds", step, i, n%len(sessions))
				}
			}
		}
		lockstest.Holds(t, holder, held, true)
		free(t, holder, held)
	}
}

// Readers hold a key together and exclude a writer, each by a majority.
func TestShared(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	w := []*wired{wire(t, group, quick), wire(t, group, quick), wire(t, group, quick)}
	a, b, c := open(t, w[0]), open(t, w[1]), open(t, w[2])
	w[0].reaches(0, 1, 2)
	w[1].reaches(2, 3, 4)
	reader, writer := driver.Want{Key: "a", Shared: true}, driver.Want{Key: "a"}
	first, err := ask(t, a, reader)
	second, err2 := ask(t, b, reader)
	if err != nil || err2 != nil || first.Token == 0 || second.Token <= first.Token {
		t.Fatalf("%+v, %v; %+v, %v: want both granted", first, err, second, err2)
	}
	if r, err := ask(t, c, writer); err != nil || r.Holder == nil || !r.Holder.Shared {
		t.Errorf("a writer beside readers: %+v, %v", r, err)
	}
	infos, err := c.List(t.Context(), "", "", 1)
	if err != nil || len(infos) != 2 || infos[0].Token != first.Token || infos[1].Token != second.Token {
		t.Errorf("listed %+v, %v: want both readers", infos, err)
	}
	free(t, a, driver.Held{Key: "a", Token: first.Token})
	if r, err := ask(t, c, writer); err != nil || r.Holder == nil {
		t.Errorf("a writer beside a reader: %+v, %v", r, err)
	}
	free(t, b, driver.Held{Key: "a", Token: second.Token})
	w[0].reaches(0, 1, 2, 3, 4)
	w[1].reaches(0, 1, 2, 3, 4)
	renew(t, a)
	renew(t, b)
	written := take(t, c, "a")
	if written.Token <= second.Token {
		t.Errorf("token %d after %d", written.Token, second.Token)
	}
	if r, err := ask(t, a, reader); err != nil || r.Holder == nil || r.Holder.Shared || r.Holder.Token != written.Token {
		t.Errorf("a reader beside a writer: %+v, %v", r, err)
	}
}

// A server that does not answer is not waited for, once that is known.
func TestAFrozenServer(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	s := open(t, wire(t, group, quick))
	group[2].Pause()
	defer group[2].Continue()
	began := time.Now()
	const pairs = 40
	for range pairs {
		free(t, s, take(t, s, "a"))
	}
	if each := time.Since(began) / pairs; each > quick.NodeTimeout/4 {
		t.Errorf("acquire and release take %v with one server frozen", each)
	}
	renew(t, s)
}

// What was evicted on a majority is gone, and is not brought back by the next renewal, though the holder knows of a server that
// lacked it.
func TestEvictedByAMajority(t *testing.T) {
	t.Parallel()
	group := start(t, 5)
	a, b := wire(t, group, quick), wire(t, group, quick)
	holder, other := open(t, a), open(t, b)
	a.reaches(1, 2, 3, 4)
	held := within(t, holder, "a")
	a.reaches(0, 1, 2, 3, 4)
	b.reaches(0, 1, 2)
	if ok, err := other.Evict(t.Context(), "a", held.Token); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if evicted, err := holder.Renew(t.Context(), nil); err != nil || !evicted {
		t.Errorf("renew: %t, %v, want it to say so", evicted, err)
	}
	lockstest.Holds(t, holder, held, false)
	renew(t, holder)
	for i, srv := range group {
		if n := on(t, srv, "a"); n != 0 {
			t.Errorf("server %d has it", i)
		}
	}
	if evicted, err := holder.Renew(t.Context(), nil); err != nil || evicted {
		t.Errorf("renew: %t, %v, want it to be over", evicted, err)
	}
}

func TestWhatItIsMadeOf(t *testing.T) {
	t.Parallel()
	at := func(addrs ...string) (clients []redis.UniversalClient) {
		for _, addr := range addrs {
			clients = append(clients, client(t, addr, nil))
		}
		return clients
	}
	group := start(t, 3)
	_, port, _ := strings.Cut(group[0].Addr, ":")
	for why, d := range map[string]*Driver{
		"3 to 63":         New(at(group[0].Addr, group[1].Addr), Options{}),
		"named twice":     New(at(group[0].Addr, group[1].Addr, group[0].Addr), Options{}),
		"client 2 is nil": New([]redis.UniversalClient{at(group[0].Addr)[0], nil, at(group[1].Addr)[0]}, Options{}),
		"NodeTimeout":     New(at(group[0].Addr, group[1].Addr, group[2].Addr), Options{NodeTimeout: -1}),
	} {
		if _, err := locks.New(d, locks.Options{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
		if _, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl}); err == nil {
			t.Error("opened")
		}
	}
	d := New(at(group[0].Addr, group[1].Addr, "localhost:"+port), Options{})
	for what, err := range map[string]error{
		"check": d.Check(t.Context()),
		"open":  func() error { _, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl}); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "are the same server") {
			t.Errorf("%s of a server with two names: %v", what, err)
		}
	}
	if err := New(at(group[0].Addr, group[1].Addr, group[2].Addr), Options{}).Check(t.Context()); err != nil {
		t.Error(err)
	}
}
