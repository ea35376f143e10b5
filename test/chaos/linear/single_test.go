package linear

import (
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestRedis(t *testing.T)      { onRedis(t, linearizable) }
func TestRedisTurns(t *testing.T) { onRedis(t, inTurn) }

func onRedis(t *testing.T, judge func(*testing.T, service)) {
	t.Parallel()
	server := servers.Redis(t)
	judge(t, service{ttl: 1500 * time.Millisecond, client: func(t *testing.T, w *ways) driver.Driver {
		rdb := redis.NewClient(&redis.Options{Addr: server, Dialer: w.dial, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = rdb.Close() })
		return redislock.New(rdb)
	}})
}

func TestZooKeeper(t *testing.T)      { onZooKeeper(t, linearizable) }
func TestZooKeeperTurns(t *testing.T) { onZooKeeper(t, inTurn) }

func onZooKeeper(t *testing.T, judge func(*testing.T, service)) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	judge(t, service{ttl: 2 * time.Second, client: func(_ *testing.T, w *ways) driver.Driver {
		return zklock.New([]string{w.to(server)}, zklock.Options{})
	}})
}

func TestMySQLLease(t *testing.T)      { onMySQL(t, 1500*time.Millisecond, sqllock.Lease, linearizable) }
func TestMySQLLeaseTurns(t *testing.T) { onMySQL(t, 1500*time.Millisecond, sqllock.Lease, inTurn) }
func TestMySQLRow(t *testing.T)        { onMySQL(t, 2*time.Second, sqllock.Row, linearizable) }

func onMySQL(t *testing.T, ttl time.Duration, mode sqllock.Mode, judge func(*testing.T, service)) {
	t.Parallel()
	server, err := mysql.ParseDSN(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	judge(t, service{ttl: ttl, alone: mode == sqllock.Row, client: func(t *testing.T, w *ways) driver.Driver {
		c := server.Clone()
		c.Addr, c.InterpolateParams = w.to(server.Addr), true
		connector, err := mysql.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		db.SetMaxIdleConns(16)
		t.Cleanup(func() { db.Close() })
		return sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: mode})
	}})
}
