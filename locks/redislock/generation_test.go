package redislock

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// recovered renews the sessions until the server grants again, and takes key with the last one.
func recovered(t *testing.T, key string, sessions ...driver.Session) driver.Result {
	t.Helper()
	var got []driver.Result
	await.Until(t, "the key is granted again", func() bool {
		renew(t, sessions...)
		var err error
		got, err = sessions[len(sessions)-1].TryAcquire(t.Context(), "after", lockstest.Wants(key))
		if err != nil && !errors.Is(err, driver.ErrRecovering) {
			t.Fatal(err)
		}
		return err == nil
	})
	return got[0]
}

func refuses(t *testing.T, s driver.Session, key string) {
	t.Helper()
	if got, err := s.TryAcquire(t.Context(), "early", lockstest.Wants(key)); !errors.Is(err, driver.ErrRecovering) {
		t.Fatalf("right after lost data: %+v, %v; want ErrRecovering", got, err)
	}
}

func TestEmptyRestart(t *testing.T) {
	t.Parallel()
	srv := servers.NewRedis(t)
	rdb := client(t, srv.Addr)
	a, b, dead := open(t, rdb, "restart"), open(t, rdb, "restart"), open(t, rdb, "restart")
	mine, gone := lockstest.Grant(t, a, "mine"), lockstest.Grant(t, dead, "gone")

	srv.Kill()
	srv.Start()
	refuses(t, b, "mine")
	refuses(t, open(t, rdb, "restart"), "mine") // a new session
	renew(t, a)
	lockstest.Holds(t, a, mine, true)
	if got := recovered(t, "mine", a, b); got.Holder == nil || got.Holder.Token != mine.Token {
		t.Errorf("what its holder brought back: %+v, want busy with token %d", got, mine.Token)
	}
	if got := recovered(t, "gone", a, b); got.Token <= gone.Token {
		t.Errorf("a key that was not reasserted: %+v, want granted above %d", got, gone.Token)
	}
	if err := lockstest.Renew(t.Context(), dead); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("a session that came too late: %v, want ErrSessionEnded", err)
	}
}

func TestRestartFromOldSnapshot(t *testing.T) {
	t.Parallel()
	srv := servers.NewRedis(t)
	const ttl = 3 * ttl // a snapshot takes time on a busy disk, and no session renews meanwhile
	rdb := clientAfter(t, srv.Addr, 8)
	a, b, c := openFor(t, rdb, "snapshot", ttl), openFor(t, rdb, "snapshot", ttl), openFor(t, rdb, "snapshot", ttl)
	old, kept, freed := lockstest.Grant(t, a, "k"), lockstest.Grant(t, a, "kept"), lockstest.Grant(t, a, "freed")
	if err := rdb.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(t.Context(), []driver.Held{old, freed}); err != nil {
		t.Fatal(err)
	}
	late, fresh := lockstest.Grant(t, b, "k"), lockstest.Grant(t, b, "fresh")
	srv.Kill()
	srv.Start() // where a holds k and freed, and fresh is free

	refuses(t, c, "freed") // a had been told that it is released
	refuses(t, a, "fresh")
	renew(t, a, b, c)
	if got, err := c.TryAcquire(t.Context(), "back", lockstest.Wants("kept")); err != nil || got[0].Holder == nil || got[0].Holder.Session != a.ID() {
		t.Errorf("kept, once a has come back: %+v, %v; want held by a", got, err)
	}
	lockstest.Holds(t, a, old, false)
	lockstest.Holds(t, a, kept, true)
	lockstest.Holds(t, b, late, true)
	lockstest.Holds(t, b, fresh, true)
	if got := recovered(t, "fresh", b, a); got.Holder == nil || got.Holder.Session != b.ID() {
		t.Errorf("fresh: %+v, want held by b", got)
	}
	if got := recovered(t, "freed", a, b); got.Token == 0 {
		t.Errorf("freed: %+v, want granted to b", got)
	}
}

func TestFlushAll(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a := open(t, rdb, "flush")
	mine := lockstest.Grant(t, a, "mine")
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	b := open(t, rdb, "flush") // knows nothing of a
	refuses(t, b, "mine")
	lockstest.Holds(t, a, mine, true) // Check brings it back as well as Renew
	if got := recovered(t, "mine", a, b); got.Holder == nil || got.Holder.Token != mine.Token {
		t.Errorf("mine: %+v, want held under %d", got, mine.Token)
	}
	other := driver.Held{Key: "other", Token: recovered(t, "other", a, b).Token}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	refuses(t, a, "other")
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := recovered(t, "other", a); got.Token <= other.Token {
		t.Errorf("token %d after %d", got.Token, other.Token)
	}
}

func TestManyKeysAreBroughtBackTogether(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a := open(t, rdb, "many")
	var keys []string
	for i := range 10000 {
		keys = append(keys, fmt.Sprintf("k%05d", i))
	}
	var held []driver.Held
	for i, r := range lockstest.Acquire(t, a, "many", keys...) {
		held = append(held, driver.Held{Key: keys[i], Token: r.Token})
	}
	rdb.FlushAll(t.Context())
	rdb.ConfigResetStat(t.Context())
	renew(t, a)
	// Each script asks for the time once: a renewal that is refused, one call for all keys, a renewal.
	if stats := rdb.Info(t.Context(), "commandstats").Val(); !strings.Contains(stats, "cmdstat_time:calls=3,") {
		t.Errorf("a renewal after lost data:\n%s", stats)
	}
	still, err := a.Check(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	for i, ok := range still {
		if !ok {
			t.Fatalf("%s was not brought back", keys[i])
		}
	}
}

func TestTokensStayAboveWhatIsBroughtBack(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a := open(t, rdb, "high")
	const ahead = int64(1e15 * 5) // the clock was once far ahead
	rdb.HSet(t.Context(), "{lockstep:high}:state", "token", ahead)
	mine := lockstest.Grant(t, a, "k")
	if mine.Token != driver.Token(ahead+1) {
		t.Fatalf("token %d, want %d", mine.Token, ahead+1)
	}
	high := lockstest.Grant(t, a, "k1")
	if high.Token <= mine.Token {
		t.Errorf("token %d after %d", high.Token, mine.Token)
	}
	if err := a.Release(t.Context(), []driver.Held{high}); err != nil {
		t.Fatal(err)
	}
	restarted(t, rdb, "high")
	renew(t, a)
	high = driver.Held{Key: "k2", Token: recovered(t, "k2", a).Token}
	if high.Token <= mine.Token+1 {
		t.Errorf("token %d after %d was in the snapshot", high.Token, mine.Token+1)
	}
	rdb.FlushAll(t.Context())
	renew(t, a)
	if got := recovered(t, "k3", a); got.Token <= high.Token {
		t.Errorf("token %d after %d was brought back", got.Token, high.Token)
	}
}

func TestLateSessionsAreNotBroughtBack(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a, b := open(t, rdb, "late"), open(t, rdb, "late")
	lockstest.Grant(t, a, "k")
	await.Until(t, "the key is free", func() bool { renew(t, b); return lockstest.Acquire(t, b, "b", "k")[0].Token > 0 })
	rdb.FlushAll(t.Context()) // after a has expired and b has its key
	if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("renew: %v, want ErrSessionEnded", err)
	}
}

func TestPromotedReplica(t *testing.T) {
	t.Parallel()
	first := servers.NewRedis(t)
	host, port, _ := strings.Cut(first.Addr, ":")
	rdb := client(t, first.Addr)
	second := servers.NewRedis(t, "--replicaof", host+" "+port)
	replica := client(t, second.Addr)
	a := open(t, rdb, "failover")
	seen := lockstest.Grant(t, a, "seen")
	await.Until(t, "the replica has seen the grant", func() bool {
		renew(t, a)
		return replica.HExists(t.Context(), "{lockstep:failover}:holders", "seen").Val()
	})
	replica.Do(t.Context(), "REPLICAOF", "NO", "ONE")
	unseen := lockstest.Grant(t, a, "unseen") // written to the old primary after the cut
	moved := a.(*session)
	moved.rdb = replica
	b := open(t, replica, "failover")
	refuses(t, b, "unseen")
	refuses(t, open(t, replica, "failover-unseen"), "k") // perhaps used, and never replicated
	renew(t, a)
	lockstest.Holds(t, a, seen, true)
	lockstest.Holds(t, a, unseen, true)
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a := open(t, rdb, "scripts")
	mine := lockstest.Grant(t, a, "k")
	flush := func() {
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	renew(t, a)
	flush()
	lockstest.Holds(t, a, mine, true)
	rdb.FlushAll(t.Context())
	refuses(t, open(t, rdb, "scripts"), "k") // the mark was put back
}

// Other namespaces of the server do not keep one from noticing that its mark is gone.
func TestScriptFlushWithTwoNamespaces(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	a, other := open(t, rdb, "scripts-1"), open(t, rdb, "scripts-2")
	mine := lockstest.Grant(t, a, "k")
	if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	renew(t, other)
	lockstest.Holds(t, other, lockstest.Grant(t, other, "k"), true)
	renew(t, a)
	rdb.FlushAll(t.Context())
	refuses(t, open(t, rdb, "scripts-1"), "k")
	lockstest.Holds(t, a, mine, true)
}

func TestServerThatJustStartedWaits(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: servers.NewRedis(t).Addr})
	defer rdb.Close()
	s := open(t, rdb, "young")
	refuses(t, s, "k")
	says(t, s, "the server is new, or was started again, [0-9] s ago, and may not know of all locks")
	if _, err := s.Evict(t.Context(), "k", 1); err == nil || !strings.Contains(err.Error(), "is new, or was started again") {
		t.Errorf("evict: %v", err)
	}
}

// says checks the message of a wait: the reason, and from when on locks are granted.
func says(t *testing.T, s driver.Session, why string) {
	t.Helper()
	_, err := s.TryAcquire(t.Context(), "early", lockstest.Wants("k"))
	if text := regexp.MustCompile(`: ` + why + `; they are granted from \d\d:\d\d:\d\d on, in \d`); err == nil || !text.MatchString(err.Error()) {
		t.Errorf("%v; want %s, and from when on", err, why)
	}
}

// What a server has lost is not put down to its age.
func TestReasonOfTheWait(t *testing.T) {
	t.Parallel()
	const lost = "the server was started again, has failed over or has lost data a short time ago, and may not know of all locks"
	srv := servers.NewRedis(t)
	rdb := client(t, srv.Addr)
	old := open(t, rdb, "reasons")
	rdb.FlushAll(t.Context())
	says(t, open(t, rdb, "reasons"), lost)
	says(t, old, lost)
	srv.Kill()
	srv.Start()
	says(t, old, "the server is new, or was started again, [0-9] s ago, and may not know of all locks")
}

// With NoGracePeriod a server that has just started grants at once, and one that has lost the namespace's data does not.
func TestNoGracePeriod(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	begin := func(d *Driver) driver.Session {
		s, err := d.Open(t.Context(), driver.Open{Namespace: "fresh", TTL: time.Minute}) // which the server has not been up for
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := begin(NewWith(rdb, Options{NoGracePeriod: true}))
	lockstest.Grant(t, s, "k")
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	refuses(t, begin(NewWith(rdb, Options{NoGracePeriod: true})), "k")
}

func TestInfoForbidden(t *testing.T) {
	t.Parallel()
	rdb := client(t, servers.NewRedis(t).Addr)
	rdb.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-info", "-script")
	blind := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, Username: "blind", Password: "pw"})
	defer blind.Close()
	d := New(blind)
	s, err := d.Open(t.Context(), driver.Open{Namespace: "blind", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(d.Caps().Note, "run_id") {
		t.Errorf("caps: %+v", d.Caps())
	}
	refuses(t, s, "k")
	says(t, s, "the server was started again, has failed over or has lost data a short time ago, and may not know of all locks")
	mine := recovered(t, "k", s)
	rdb.FlushAll(t.Context())
	refuses(t, s, "k2")
	lockstest.Holds(t, s, driver.Held{Key: "k", Token: mine.Token}, true)
}
