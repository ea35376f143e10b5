package redislock

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		srv := servers.NewRedis(t)
		admin := clientAfter(t, srv.Addr, 3) // so namespaces are new, for sessions of 1 s
		h := harness(admin, nil, func(dial dialer) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: srv.Addr, Dialer: dial, DialerRetries: 1, MaxRetries: -1})
		})
		h.RestartEmpty = func(t *testing.T) { srv.Kill(); srv.Start() }
		return h
	})
}

// A user with the least rights, over TLS, has all that it needs.
func TestSecureConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		a := servers.NewAuthority(t)
		srv := servers.NewSecureRedis(t, servers.Secure{Authority: a, ClientCerts: true, Password: "secret"})
		settings := a.TLS(a.Client("replica"))
		admin := redis.NewClient(&redis.Options{Addr: srv.Addr, Password: "secret", TLSConfig: settings})
		t.Cleanup(func() { _ = admin.Close() })
		aged(t, admin, 3)
		limited(t, admin)
		h := harness(admin, settings, func(dial dialer) redis.UniversalClient {
			return redis.NewClient(&redis.Options{
				Addr: srv.Addr, Username: "lockstep", Password: "limited", Dialer: dial, DialerRetries: 1, MaxRetries: -1,
			})
		})
		h.Brief = true
		return h
	})
}

// limited makes the user lockstep as docs/backends.md says.
func limited(t *testing.T, admin redis.UniversalClient) {
	t.Helper()
	rules := []any{"ACL", "SETUSER", "lockstep", "on", ">limited"}
	for rule := range strings.FieldsSeq(leastRights) {
		rules = append(rules, rule)
	}
	if err := admin.Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
}

// leastRights stands in docs/backends.md.
const leastRights = "resetkeys ~{lockstep:* resetchannels &{lockstep:* -@all " +
	"+evalsha +eval +script|load +script|exists +info " +
	"+time +hget +hset +hmget +hvals +hdel +hexists +hincrby +zadd +zscore +zrem +zrangebylex +zrangebyscore +zrevrange +zremrangebyscore +publish +subscribe +ping"

// harness makes each client with wires of its own.
func harness(admin redis.UniversalClient, settings *tls.Config, connect func(dialer) redis.UniversalClient) lockstest.Harness {
	return lockstest.Harness{
		Driver: func(t *testing.T) driver.Driver {
			w := &wired{Wires: lockstest.Wires{TLS: settings}}
			rdb := connect(w.Dial)
			t.Cleanup(func() { _ = rdb.Close() })
			w.Driver = New(rdb)
			return w
		},
		ExpireSession: func(t *testing.T, s driver.Session) {
			ours := s.(*session)
			must(t, admin.ZAdd(t.Context(), ours.keys[1], redis.Z{Member: ours.id, Score: 1}), admin.HSet(t.Context(), ours.keys[0], "@"+ours.id, 1))
		},
		Disconnect: func(_ *testing.T, d driver.Driver) { d.(*wired).Cut() },
		Reconnect:  func(_ *testing.T, d driver.Driver) { d.(*wired).Mend() },
	}
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// wired is a driver whose client can be cut off.
type wired struct {
	*Driver
	lockstest.Wires
}
