//go:build linux

package arena

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// diskSize is enough for the tables of a long run, and soon filled.
const (
	diskSize    = 512 << 20
	mariaDBSize = 2 << 30 // its files do not shrink
)

// openServers starts what the cell is made of.
func (a *Arena) openServers(t testing.TB, o Options) {
	if a.Cell.Store == SQLite {
		dir := a.Dir
		if disk, ok := servers.NewDisk(t, diskSize); ok {
			a.Disk, dir = disk, disk.Dir
		}
		a.SQLite = filepath.Join(dir, "lockstep.db")
	} else {
		a.Store = newMariaDB(t, o)
	}
	switch a.Cell.Lock {
	case Redis:
		a.Redis = servers.NewRedis(t)
		a.awaitGrants(t)
	case Quorum:
		for range quorumSize {
			if o.Clocks && a.OneClock == nil {
				a.OneClock = servers.NewClock(t)
				a.Quorum = append(a.Quorum, a.OneClock.NewRedis(t))
			} else {
				a.Quorum = append(a.Quorum, servers.NewRedis(t))
			}
		}
		a.awaitGrants(t)
	case ZooKeeper:
		if o.Clocks {
			a.ZooKeeper = servers.NewClock(t).NewEnsemble(t)
		} else {
			a.ZooKeeper = servers.NewEnsemble(t)
		}
	case Lease, Row:
		a.LockStore = newMariaDB(t, o)
	}
}

// quorumSize is how many servers a quorum has.
const quorumSize = 5

// quorumAddrs are the addresses of the servers of a quorum.
func (a *Arena) quorumAddrs() (addrs []string) {
	for _, s := range a.Quorum {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// awaitGrants waits where replicas do: a Redis younger than a lease may have forgotten some, and grants none.
func (a *Arena) awaitGrants(t testing.TB) {
	if a.whenDown == "wait" {
		select {
		case <-time.After(LockTTL + time.Second):
		case <-t.Context().Done():
		}
	}
}

// newMariaDB is a server on a small disk, where this user may mount one, with a database for the
// replicas' Account, which has no rights beyond it.
func newMariaDB(t testing.TB, o Options) *servers.MySQLServer {
	var clock *servers.Clock
	if o.Clocks {
		clock = servers.NewClock(t)
	}
	disk, _ := servers.NewDisk(t, mariaDBSize)
	s := disk.NewMySQL(t, clock, "--innodb-autoinc-lock-mode=2") // inserts into the audit must not wait for each other
	s.DSN(Database)
	s.Exec("CREATE USER "+Account, "GRANT ALL ON "+Database+".* TO "+Account)
	return s
}

// openEdges puts a hub before each server.
func (a *Arena) openEdges() error {
	var ids []string
	for _, r := range a.Replicas {
		ids = append(ids, r.ID)
	}
	open := func(listen func(string) (*proxy.Proxy, error), targets ...string) (hubs []*hub, err error) {
		for _, target := range targets {
			h, err := newHub(target, listen, ids, a.owners)
			if err != nil {
				return hubs, err
			}
			hubs = append(hubs, h)
		}
		return hubs, nil
	}
	var err, also error
	if a.Store != nil {
		a.stores, err = open(proxy.ListenMySQL, a.Store.Addr)
	}
	switch {
	case a.Redis != nil:
		a.locks, also = open(proxy.Listen, a.Redis.Addr)
	case a.Quorum != nil:
		a.locks, also = open(proxy.Listen, a.quorumAddrs()...)
	case a.ZooKeeper != nil:
		a.locks, also = open(proxy.Listen, a.ZooKeeper.Addrs()...)
	case a.LockStore != nil:
		a.locks, also = open(proxy.ListenMySQL, a.LockStore.Addr)
	}
	for _, r := range a.Replicas {
		for _, h := range a.stores {
			r.StoreEdges = append(r.StoreEdges, h.edges[r.ID])
		}
		for _, h := range a.locks {
			r.LockEdges = append(r.LockEdges, h.edges[r.ID])
		}
	}
	return errors.Join(err, also)
}

// owners are the replicas by the ids of their processes.
func (a *Arena) owners() map[int]string {
	all := map[int]string{}
	for _, r := range a.Replicas {
		r.mu.Lock()
		for _, p := range append([]*process{r.now}, r.twins...) {
			if p != nil && !p.ended() {
				all[p.record.PID] = r.ID
			}
		}
		for _, pid := range r.beside {
			all[pid] = r.ID
		}
		r.mu.Unlock()
	}
	return all
}

// addresses are the two lines of the configuration with the addresses of the servers.
func (a *Arena) addresses() (store, lock string) {
	dsn := func(h *hub) string { return fmt.Sprintf("%s@tcp(%s)/%s", Account, h.addr(), Database) }
	if a.Store != nil {
		store = fmt.Sprintf("driver: mysql, dsn: %q", dsn(a.stores[0]))
	} else {
		store = fmt.Sprintf("driver: sqlite, dsn: %q", a.SQLite)
	}
	if a.retention > 0 {
		store += fmt.Sprintf(", retention: {triggers: %[1]v, succeeded: %[1]v, failed: %[1]v, output: %[1]v}", a.retention)
	}
	rest := fmt.Sprintf("ttl: %v, when_down: %s", LockTTL, a.whenDown)
	switch a.Cell.Lock {
	case Redis:
		lock = fmt.Sprintf("driver: redis, %s, redis: {addrs: [%q]}", rest, a.locks[0].addr())
	case Quorum:
		var nodes []string
		for _, h := range a.locks {
			nodes = append(nodes, fmt.Sprintf("{addrs: [%q]}", h.addr()))
		}
		lock = fmt.Sprintf("driver: quorum, %s, quorum: {nodes: [%s]}", rest, strings.Join(nodes, ", "))
	case ZooKeeper:
		var addrs []string
		for _, h := range a.locks {
			addrs = append(addrs, h.addr())
		}
		lock = fmt.Sprintf("driver: zookeeper, %s, zookeeper: {servers: [%s], session_timeout: %v}", rest, quoted(addrs), LockTTL)
	case Lease, Row:
		lock = fmt.Sprintf("driver: mysql, %s, mysql: {dsn: %q, mode: %s}", rest, dsn(a.locks[0]), a.Cell.Lock)
	default:
		lock = rest
	}
	return "{" + store + "}", "{" + strings.TrimSpace(lock) + "}"
}

// StoreDSN is the DSN of the store for the harness: without the edges, as root.
func (a *Arena) StoreDSN() (driver, dsn string) {
	if a.Store != nil {
		return "mysql", a.Store.DSNOf("root", "", Database)
	}
	return "sqlite", a.SQLite
}
