package mistakes

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: SET NX on a master with replicas is acknowledged before a replica has it. The master dies, a replica without the
// lock takes its place, and the next client gets it while the first one works.
//
// Here a server that is another one than before grants nothing for one ttl. In that time live sessions bring back what they
// hold, also what was never replicated, and whoever cannot has stopped trusting its lease.
func TestLostAtFailover(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	master, replica := servers.NewRedis(t), servers.NewRedis(t)
	replication := newLink(t, master.Addr, nil)
	var now atomic.Pointer[string] // the address of the master
	now.Store(&master.Addr)
	client := func() *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: "master", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", *now.Load())
		}})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	promoted := redis.NewClient(&redis.Options{Addr: replica.Addr})
	t.Cleanup(func() { _ = promoted.Close() })
	host, port, _ := net.SplitHostPort(replication.addr)
	if err := promoted.SlaveOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the replica follows", func() bool {
		return strings.Contains(promoted.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})

	naive, namespace := "naive:"+rand.Text(), rand.Text()
	acquire := func(who string) bool { return client().SetNX(t.Context(), naive, who, quiet).Val() }
	ours := func() *locks.Locker {
		return locker(t, redislock.NewWith(client(), redislock.Options{NoGracePeriod: true}), namespace, ttl)
	}
	a, b := ours(), ours()
	for _, l := range []*locks.Locker{a, b} {
		if err := l.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the replica knows the sessions", func() bool {
		return client().Do(t.Context(), "WAIT", 1, 1000).Val() == int64(1)
	})
	replication.cut() // what comes now is acknowledged, and not replicated
	if !acquire("a") {
		t.Fatal("the key is not free")
	}
	lease := get(t, a, "k")
	master.Kill()
	if err := promoted.SlaveOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	now.Store(&replica.Addr)

	if !acquire("b") {
		t.Error("the naive lock has survived: this test shows nothing")
	}
	await.Until(t, "a has brought its lease back", func() bool {
		got, err := b.TryAcquire(t.Context(), locks.Request{Key: "k"})
		switch {
		case errors.Is(err, locks.ErrUnavailable), errors.Is(err, locks.ErrRecovering):
			return false
		case err != nil:
			t.Fatal(err)
		case got[0].Lease != nil && lease.Check() == nil:
			t.Fatal("two hold the key")
		}
		return errors.Is(got[0].Err, locks.ErrBusy)
	})
	if err := lease.Check(); err != nil {
		t.Error(err)
	}
}
