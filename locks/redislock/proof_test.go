package redislock

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// counted is how often the server ran each command during f.
func counted(t *testing.T, rdb *redis.Client, f func()) map[string]int {
	t.Helper()
	must(t, rdb.ConfigResetStat(t.Context()))
	f()
	stats := map[string]int{}
	for _, m := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`).FindAllStringSubmatch(rdb.Info(t.Context(), "commandstats").Val(), -1) {
		stats[m[1]], _ = strconv.Atoi(m[2])
	}
	return stats
}

// pair acquires and releases a key.
func pair(t *testing.T, s driver.Session, key string) {
	t.Helper()
	release(t, s, lockstest.Grant(t, s, key))
}

// The common case is two scripts of few commands, and none of them is INFO.
func TestThePairIsSlim(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	s := begin(t, rdb, "slim")
	pair(t, s, "k")
	got := counted(t, rdb, func() { pair(t, s, "k") })
	for name, want := range map[string]int{"evalsha": 2, "eval": 0, "hmget": 2, "hexists": 1, "time": 1, "zscore": 0, "hset": 1, "hdel": 1, "info": 0, "zadd": 1, "zrem": 1} {
		if got[name] != want {
			t.Errorf("%s: %d times, want %d (%v)", name, got[name], want, got)
		}
	}
	other := begin(t, rdb, "slim")
	if got := counted(t, rdb, func() { pair(t, other, "k") }); got["info"] != 0 || got["eval"] != 0 {
		t.Errorf("another session makes a proof of its own: %v", got)
	}
}

// A hand-over is one script, which has a proof, too, and looks at the queue once.
func TestAHandOverIsSlim(t *testing.T) {
	t.Parallel()
	rdb := unused(t)
	a, b := begin(t, rdb, "slim"), begin(t, rdb, "slim")
	pair(t, a, "k")
	held := lockstest.Grant(t, a, "k")
	p := queued(t, b, driver.Want{Key: "k"})
	got := counted(t, rdb, func() { release(t, a, held) })
	for name, want := range map[string]int{"evalsha": 1, "eval": 0, "info": 0, "publish": 1, "zrangebylex": 1} {
		if got[name] != want {
			t.Errorf("%s: %d times, want %d (%v)", name, got[name], want, got)
		}
	}
	t.Log(got)
	release(t, b, granted(t, b, p))
}

// A server that has lost its process or its place is found out by the first call, though the proof is in its data.
func TestAProofEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		args []string
		lose func(t *testing.T, srv *servers.RedisServer, rdb *redis.Client, s *session)
	}{
		"restart from a snapshot": {nil, func(t *testing.T, srv *servers.RedisServer, rdb *redis.Client, _ *session) {
			must(t, rdb.Save(t.Context()))
			srv.Kill()
			srv.Start()
		}},
		"restart from a log": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, func(_ *testing.T, srv *servers.RedisServer, _ *redis.Client, _ *session) {
			srv.Kill()
			srv.Start()
		}},
		"restart from a log that was rewritten": {[]string{"--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no"},
			func(t *testing.T, srv *servers.RedisServer, rdb *redis.Client, _ *session) {
				must(t, rdb.BgRewriteAOF(t.Context()))
				await.Until(t, "the log is rewritten", func() bool {
					info := rdb.Info(t.Context(), "persistence").Val()
					return strings.Contains(info, "aof_rewrite_in_progress:0\r") && strings.Contains(info, "aof_rewrite_scheduled:0\r")
				})
				srv.Kill()
				srv.Start()
			}},
		"promoted replica": {nil, func(t *testing.T, srv *servers.RedisServer, _ *redis.Client, s *session) {
			host, port, _ := strings.Cut(srv.Addr, ":")
			replica := client(t, servers.NewRedis(t, "--replicaof", host+" "+port).Addr)
			await.Until(t, "the replica has the proof", func() bool {
				pair(t, s, "k") // also after the replica has joined: what is sent to replicas is no proof there
				return replica.HGet(t.Context(), s.keys[0], "proof").Val() == s.proof.id
			})
			await.Until(t, "the replica has the key", func() bool { return replica.HExists(t.Context(), s.keys[0], "=held").Val() })
			must(t, replica.Do(t.Context(), "REPLICAOF", "NO", "ONE"))
			s.moveTo(replica)
		}},
		"demoted, and promoted again": {nil, func(t *testing.T, srv *servers.RedisServer, rdb *redis.Client, s *session) {
			host, port, _ := strings.Cut(srv.Addr, ":")
			second := servers.NewRedis(t, "--replicaof", host+" "+port)
			replica := client(t, second.Addr)
			await.Until(t, "the replica has the key", func() bool { return replica.HExists(t.Context(), s.keys[0], "=held").Val() })
			must(t, replica.Do(t.Context(), "REPLICAOF", "NO", "ONE"))
			s.moveTo(replica)
			refuses(t, s, "new")
			must(t, replica.HSet(t.Context(), s.keys[0], "until", 0)) // it grants: the first server does not know what
			gen := replica.HGet(t.Context(), s.keys[0], "gen").Val()
			host, port, _ = strings.Cut(second.Addr, ":")
			must(t, rdb.Do(t.Context(), "REPLICAOF", host, port))
			await.Until(t, "the first server has the data of the second", func() bool { return rdb.HGet(t.Context(), s.keys[0], "gen").Val() == gen })
			must(t, rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE"))
			s.moveTo(rdb)
		}},
		"lost data": {nil, func(t *testing.T, _ *servers.RedisServer, rdb *redis.Client, _ *session) {
			must(t, rdb.FlushAll(t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := servers.NewRedis(t, way.args...)
			rdb := redis.NewClient(&redis.Options{Addr: srv.Addr})
			defer rdb.Close()
			s := begin(t, rdb, "proven").(*session)
			pair(t, s, "k")
			held := lockstest.Grant(t, s, "held")
			before := s.proof.id
			if got := counted(t, rdb, func() { pair(t, s, "k") }); before == "" || before == unprovable || got["info"] > 0 {
				t.Fatalf("proof %q, %v; want a pair without INFO", before, got)
			}
			way.lose(t, srv, rdb, s)
			refuses(t, s, "new")
			lockstest.Holds(t, s, held, true)
			if s.proof.id == before {
				t.Error("the proof is that of the generation before")
			}
		})
	}
}

// Where only the scripts are lost, or the data is loaded anew by the same process, nothing has to wait, and a new proof is made.
func TestAProofIsMadeAnew(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: servers.NewRedis(t, "--enable-debug-command", "yes").Addr})
	defer rdb.Close()
	a, b := begin(t, rdb, "anew").(*session), begin(t, rdb, "anew").(*session)
	pair(t, a, "k")
	pair(t, b, "k")
	before := a.proof.id
	must(t, rdb.ScriptFlush(t.Context()))
	for range 3 {
		pair(t, a, "k")
		pair(t, b, "k")
	}
	if a.proof.id == before || a.proof.id != b.proof.id {
		t.Errorf("proofs %q and %q, before %q", a.proof.id, b.proof.id, before)
	}
	if got := counted(t, rdb, func() { pair(t, a, "k"); pair(t, b, "k") }); got["info"] > 0 || got["evalsha"] != 4 || got["eval"] > 0 {
		t.Errorf("after SCRIPT FLUSH: %v", got)
	}
	held := lockstest.Grant(t, a, "held")
	must(t, rdb.Do(t.Context(), "DEBUG", "RELOAD"))
	pair(t, a, "k")
	lockstest.Holds(t, a, held, true)
}

// What makes a proof is sent once, also by a client that repeats calls: else two servers might have it.
func TestAProofIsSentOnce(t *testing.T) {
	t.Parallel()
	admin := unused(t)
	var deaf atomic.Bool
	rdb := deafClient(t, admin.Options().Addr, "eval", &deaf)
	s := begin(t, rdb, "once")
	deaf.Store(true)
	defer deaf.Store(false)
	var err error
	got := counted(t, admin, func() { _, err = s.TryAcquire(t.Context(), "lost", lockstest.Wants("k")) })
	if err == nil || errors.Is(err, driver.ErrUnreachable) || got["eval"] != 1 {
		t.Errorf("%v; sent %d times, want an unknown outcome and once", err, got["eval"])
	}
	deaf.Store(false)
	if r := lockstest.Acquire(t, s, "lost", "k")[0]; r.Token == 0 {
		t.Errorf("asked again: %+v", r)
	}
}

// deafTo is a connection that loses the answers to a command.
type deafTo struct {
	net.Conn
	command string
	deaf    *atomic.Bool
}

func (c *deafTo) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.deaf.Load() && strings.Contains(string(b[:min(len(b), 40)]), c.command+"\r\n") {
		time.Sleep(50 * time.Millisecond) // the server has it
		_ = c.Close()
	}
	return n, err
}

// deafClient loses them while deaf is set.
func deafClient(t *testing.T, addr, command string, deaf *atomic.Bool) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 5, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &deafTo{conn, command, deaf}, err
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// The client that the program has passed keeps its options.
func TestTheClientStaysAsItIs(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: servers.Redis(t), ReadTimeout: 7 * time.Second, WriteTimeout: 9 * time.Second})
	defer rdb.Close()
	other := prompt(rdb)
	if o := rdb.Options(); o.ContextTimeoutEnabled || o.ReadTimeout != 7*time.Second || o.WriteTimeout != 9*time.Second {
		t.Errorf("%+v", o)
	}
	if o := other.(*redis.Client).Options(); !obeys(other) || o.ReadTimeout != 7*time.Second || o.WriteTimeout != 9*time.Second {
		t.Errorf("%+v", o)
	}
}

// deafening is a connection that loses the next answer, and ends with it.
type deafening struct {
	net.Conn
	next *atomic.Bool
}

func (c deafening) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.next.CompareAndSwap(true, false) {
		return 0, cmp.Or(c.Close(), io.EOF)
	}
	return n, err
}

// The client sends a command again when its answer is lost. A second eviction would find that the first one has freed the key, and say
// that nobody held it.
func TestAnEvictionIsNotSentTwice(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	addr := servers.NewRedis(t).Addr
	rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return deafening{c, &lose}, err
	}})
	defer rdb.Close()
	a, b := begin(t, client(t, addr), "evicts"), begin(t, rdb, "evicts")
	held := lockstest.Grant(t, a, "k")
	if freed, err := b.Evict(t.Context(), "other", 1); freed || err != nil { // so that its connection is there
		t.Fatal(freed, err)
	}
	lose.Store(true)
	if freed, err := b.Evict(t.Context(), "k", held.Token); err == nil {
		t.Errorf("freed %t, without an error, and the answer was lost", freed)
	}
	lockstest.Holds(t, a, held, false)
}
