package config

import (
	"crypto/tls"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// Config is one configuration with defaults filled in. Jobs and pools of Set are as written, with the file's own
// defaults; their zero fields mean the defaults of package jobs.
type Config struct {
	Path     string            // of the main file
	Watch    bool              // it is loaded again when its files change
	Replica  scheduler.Options // those of the section replica
	Store    Store
	Lock     Lock
	Server   Server
	Set      jobs.Set
	Warnings []Error // allowed, but probably a mistake; sorted by position

	Settings map[string]string // hashes of the values that need a restart, by the paths of their keys; see NeedsRestart

	origin *origin // nil without Options.Reloadable
}

// Names of stores and lock services in the file.
const (
	SQLite    = "sqlite"
	MySQL     = "mysql"
	Redis     = "redis"
	ZooKeeper = "zookeeper"
	Quorum    = "quorum"
)

// Store is where the rows are.
type Store struct {
	Driver      string      // SQLite or MySQL
	DSN         string      // a file's path, or the DSN of go-sql-driver/mysql
	TLS         *tls.Config // for MySQL; nil: what the DSN says
	Insecure    bool        // weak options are allowed in the DSN; with TLS no certificate is verified
	Migrate     string      // "auto": at start; "manual": by "scheduler migrate"
	TablePrefix string
	Retention   jobs.Retention
}

// Lock is the lock service. Only the part that belongs to Driver is used.
type Lock struct {
	Driver    string        // SQLite, MySQL, Redis, ZooKeeper or Quorum; default Store.Driver
	TTL       time.Duration // with ZooKeeper, the same as ZooKeeper.SessionTimeout
	WhenDown  string        // "store": the row decides alone; "wait": nothing starts
	Redis     RedisLock
	ZooKeeper ZooKeeperLock
	MySQL     MySQLLock
	Quorum    QuorumLock
}

// RedisLock is one Redis: a server, a group under Sentinel, or a cluster.
type RedisLock struct {
	Mode       string   // standalone, sentinel or cluster
	Addrs      []string // host:port; of the sentinels in mode sentinel
	Username   string
	Password   string
	DB         int
	MasterName string      // in mode sentinel
	TLS        *tls.Config // nil: none
	Insecure   bool        // with TLS no certificate is verified

	SentinelUsername string // of the sentinels
	SentinelPassword string
}

// ZooKeeperLock is one ensemble.
type ZooKeeperLock struct {
	Servers        []string // host:port
	Root           string
	Auth           string      // user:password; empty: nodes without access control
	Unguarded      bool        // Auth may be empty where other machines reach the servers
	TLS            *tls.Config // nil: none
	Insecure       bool        // as Redis'
	SessionTimeout time.Duration
}

// MySQLLock is locks in a MySQL or MariaDB database.
type MySQLLock struct {
	DSN  string      // default: the store's, if that is MySQL
	TLS  *tls.Config // nil: as in the DSN; the store's with the store's DSN
	Mode string      // lease or row

	Insecure bool // as the store's
}

// QuorumLock is several independent Redis servers, of which a majority decides. The settings are the same for all.
type QuorumLock struct {
	Nodes    []QuorumNode
	Username string
	Password string
	DB       int
	TLS      *tls.Config // nil: none
	Insecure bool        // as Redis'
}

// QuorumNode is one of them.
type QuorumNode struct{ Addrs []string } // host:port, one

// Addrs are the addresses of all nodes.
func (q QuorumLock) Addrs() (all []string) {
	for _, n := range q.Nodes {
		all = append(all, n.Addrs...)
	}
	return all
}

// LockInStore reports whether the lock service is the store's own database: then its rows are the locks, and the rest
// of Lock is unused.
func (c *Config) LockInStore() bool {
	return c.Lock.Driver == c.Store.Driver && (c.Lock.Driver != MySQL || c.Lock.MySQL.DSN == c.Store.DSN)
}

// Default is the configuration of an empty file. Lock.Driver and Lock.MySQL.DSN are empty: they default to the store's.
func Default() Config {
	const day = 24 * time.Hour
	return Config{
		Watch: true,
		Replica: scheduler.Options{
			Workers:      64,
			SessionTTL:   10 * time.Second,
			DrainTimeout: 25 * time.Second,
			MaxClockSkew: 2 * time.Second,
		},
		Store: Store{
			Driver:      SQLite,
			Migrate:     "auto",
			TablePrefix: "lockstep_",
			Retention:   jobs.Retention{Triggers: 30 * day, Succeeded: 2 * day, Failed: 14 * day, Output: 7 * day},
		},
		Lock: Lock{
			TTL:       10 * time.Second,
			WhenDown:  "store",
			Redis:     RedisLock{Mode: "standalone", Addrs: []string{"127.0.0.1:6379"}},
			ZooKeeper: ZooKeeperLock{Servers: []string{"127.0.0.1:2181"}, Root: "/lockstep", SessionTimeout: 10 * time.Second},
			MySQL:     MySQLLock{Mode: "lease"},
		},
		Server: Server{Listen: "127.0.0.1:8080"},
	}
}

// defaultFile is the SQLite file of a store that names none, beside the configuration.
const defaultFile = "lockstep.db"
