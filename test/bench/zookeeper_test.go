package bench

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func onZooKeeper(tb testing.TB) []contestant {
	tb.Helper()
	addr := servers.ZooKeeper(tb)
	conn := zkConn(tb, addr)
	const (
		raw   = "ZooKeeper: create an ephemeral node, delete it (all at once)"
		rival = "go-zookeeper's zk.Lock"
	)
	return []contestant{
		{name: raw, take: func(_ context.Context, keys []string) (func() error, error) { return createNodes(conn, keys) }},
		ours(tb, "**zklock**, Lockstep", raw, zklock.New([]string{addr}, zklock.Options{})).beside(rival),
		{name: rival, raw: raw, take: oneByOne(func(_ context.Context, key string) (func() error, error) {
			lock := zk.NewLock(conn, "/rival/"+key, everybody)
			return lock.Unlock, lock.Lock()
		})},
	}
}

var everybody = zk.WorldACL(zk.PermAll)

// createNodes sends all requests before it waits for the first answer.
func createNodes(conn *zk.Conn, keys []string) (func() error, error) {
	each := func(do func(path string) error) error {
		errs := make([]error, len(keys))
		var all sync.WaitGroup
		for i, key := range keys {
			all.Go(func() { errs[i] = do("/raw/" + key) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	err := each(func(path string) error {
		_, err := conn.Create(path, nil, zk.FlagEphemeral, everybody)
		return err
	})
	return func() error { return each(func(path string) error { return conn.Delete(path, -1) }) }, err
}
