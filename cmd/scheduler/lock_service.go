package main

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/mysqlconn"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// lockService is the name of the lock service: equal for two replicas if and only if they lock at the same place in the same
// way. Locks of jobs in the store's own database have the name that [scheduler.New] gives them.
func lockService(c *config.Config, namespace string) (string, error) {
	if c.LockInStore() {
		name := scheduler.StoreLocks
		if c.Store.Driver == config.MySQL && c.Lock.MySQL.Mode != string(sqllock.Lease) { // the modes do not exclude each other
			name += ", with locks of jobs in mysql-" + c.Lock.MySQL.Mode
		}
		if c.Set.Name != "" {
			name += ", namespace " + c.Set.Name
		}
		return name, nil
	}
	var place string
	switch l := c.Lock; l.Driver {
	case config.Redis:
		place = fmt.Sprintf("redis %s, mode %s, db %d", sorted(l.Redis.Addrs), l.Redis.Mode, l.Redis.DB)
		if l.Redis.MasterName != "" {
			place += ", master " + l.Redis.MasterName
		}
	case config.Quorum:
		place = fmt.Sprintf("quorum of %s, db %d", sorted(l.Quorum.Addrs()), l.Quorum.DB)
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
	place += ", namespace " + namespace
	if len(place) > limits.LockService { // a digest takes the place of its end
		place = fmt.Sprintf("%s… (%x)", place[:limits.LockService-80], sha256.Sum256([]byte(place)))
	}
	return place, nil
}

// sorted is a list of addresses without those that are there twice.
func sorted(addrs []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(addrs))), ",")
}
