package config

import (
	"crypto/tls"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// refuse reports a problem of several values; path is where to correct it.
func (r *reader) refuse(path, problem, hint string) {
	r.report.add(r.locate(path), path, problem, hint)
}

func (r *reader) advise(path, problem, hint string) {
	r.warnings.add(r.locate(path), path, problem, hint)
}

// wrote reports whether the main file has something at path.
func (r *reader) wrote(path string) bool {
	n, found := descend(nil, r.main.root, path)
	return found && !empty(n)
}

// insecureAlone reports whether a section tls has no key that turns TLS on, or off.
func (r *reader) insecureAlone(section string) bool {
	return !slices.ContainsFunc([]string{"enabled", "ca_file", "cert_file", "key_file", "server_name"}, func(key string) bool { return r.wrote(section + "." + key) })
}

func (r *reader) checkVersion(n *yaml.Node) {
	switch {
	case r.main.root.Kind != yaml.MappingNode: // reported already
	case n == nil:
		r.report.add(r.main.at(r.main.root), "version", "is missing", `write "version: 1" at the top`)
	case deref(n).Value != "1" || deref(n).Kind != yaml.ScalarNode:
		r.report.add(r.main.at(n), "version", "is not one that this program knows", "the only version is 1")
	}
}

var tablePrefix = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// checkSettings checks settings against each other, and fills in those that follow from others.
func (r *reader) checkSettings() {
	c := r.c
	for _, section := range []string{"store", "lock.mysql"} {
		if r.wrote(section+".dsn") && r.wrote(section+".dsn_file") {
			r.refuse(section+".dsn_file", "stands beside dsn", "one of them is enough")
		}
	}
	if c.Store.TLS != nil && c.Store.Driver != MySQL {
		r.advise("store.tls", "has no effect: a SQLite file is not reached through a network", "remove it")
	}
	if !tablePrefix.MatchString(c.Store.TablePrefix) {
		r.refuse("store.table_prefix", "is not a prefix for tables", "a-z, 0-9 and _, at most 32")
	}
	switch c.Store.Driver {
	case SQLite:
		r.checkSQLite()
	case MySQL:
		if c.Store.DSN == "" && !r.wrote("store.dsn") && !r.wrote("store.dsn_file") {
			r.refuse("store", "the driver mysql needs a dsn", "write user:password@tcp(host:3306)/database in dsn, or in the file that dsn_file names")
		}
		r.checkDSN("store", c.Store.DSN, &c.Store.TLS, c.Store.Insecure)
	}
	r.checkLock()
	if path, problem, hint := c.Server.problem(); problem != "" {
		r.refuse(path, problem, hint)
	}
	if c.LockInStore() && c.Lock.WhenDown != Default().Lock.WhenDown {
		r.advise("lock.when_down", "has no effect: the lock is rows of the store's own database", "remove it, or lock in another service")
	}
	if c.Store.Driver == SQLite && !c.LockInStore() && c.Set.Name == "" {
		r.advise("name", "is not set: the namespace of the locks is that of the database "+c.Store.DSN+", so other machines and programs do not share them",
			"set name, the same in all that share locks")
	}
	if c.Lock.TTL > time.Minute {
		r.advise("lock.ttl", "is long: what a killed process has locked waits up to that time", "10s is the default")
	}
}

// checkSQLite completes the path of the database file.
func (r *reader) checkSQLite() {
	dsn := &r.c.Store.DSN
	switch {
	case *dsn == "":
		*dsn = defaultFile
	case strings.HasPrefix(*dsn, ":memory:"):
		r.refuse("store.dsn", "a database in memory cannot be shared, and is lost at exit", "give it the path of a file")
	case strings.HasPrefix(*dsn, "file:"), strings.Contains(*dsn, "?"):
		r.refuse("store.dsn", "a plain path is wanted, without file: and options", "")
	case strings.Contains(*dsn, "@tcp("), strings.Contains(*dsn, "@unix("), strings.Contains(*dsn, "@/"), strings.Contains(*dsn, "://"):
		r.refuse("store.dsn", "is not the path of a file", "for a MySQL server, set driver: mysql")
	}
	*dsn = r.resolve(*dsn)
}

// checkDSN parses the DSN of a MySQL server. Errors do not contain it: it has a password.
func (r *reader) checkDSN(section, dsn string, settings **tls.Config, insecure bool) {
	if dsn == "" {
		return
	}
	path := section + ".dsn"
	if !r.wrote(path) {
		path = section + ".dsn_file"
	}
	const form = "the form is user:password@tcp(host:3306)/database"
	d, err := mysql.ParseDSN(dsn)
	switch {
	case strings.Contains(dsn, "://"):
		r.refuse(path, "is a URL, not a DSN", form)
	case err != nil:
		r.refuse(path, "cannot be read as a DSN", form)
	case d.DBName == "":
		r.refuse(path, "names no database", form)
	case *settings != nil && d.TLSConfig != "" && !(insecure && r.insecureAlone(section+".tls")):
		r.refuse(section+".tls", "stands beside tls= in the DSN", "one of them is enough")
	default:
		if d.TLSConfig != "" { // insecure allows it
			*settings = nil
		}
		r.refuseWeak(section, path, d, *settings, insecure)
	}
}

// checkLock refuses locks that cannot exclude the replicas of this store from each other.
func (r *reader) checkLock() {
	c := r.c
	lock := &c.Lock
	_, named := descend(nil, r.main.root, "lock.driver") // also as "", which says it
	for _, section := range []string{Redis, ZooKeeper, Quorum} {
		if r.wrote("lock."+section) && !named {
			r.refuse("lock."+section, "has no effect without lock.driver: the locks would be in the store's own database", "write driver: "+section+", or remove it")
		}
	}
	if lock.Driver == "" {
		lock.Driver = c.Store.Driver
	}
	if lock.MySQL.DSN == "" && c.Store.Driver == MySQL {
		lock.MySQL.DSN = c.Store.DSN
		if lock.MySQL.TLS != nil {
			r.advise("lock.mysql.tls", "has no effect: without a dsn of its own the lock goes with the store", "write it in store.tls")
		}
		lock.MySQL.TLS = c.Store.TLS
	} else {
		r.checkDSN("lock.mysql", lock.MySQL.DSN, &lock.MySQL.TLS, lock.MySQL.Insecure)
	}
	switch lock.Driver {
	case SQLite:
		if c.Store.Driver == MySQL {
			r.refuse("lock.driver", "sqlite cannot exclude the replicas of a mysql store: they may run on other machines", "remove the key to lock in the store's own database, or take redis, zookeeper or quorum")
		}
	case MySQL:
		if lock.MySQL.DSN == "" && c.Store.Driver == SQLite && !r.wrote("lock.mysql.dsn") && !r.wrote("lock.mysql.dsn_file") {
			r.refuse("lock.driver", "mysql needs lock.mysql.dsn, since the store is sqlite", "the form is user:password@tcp(host:3306)/database")
		}
	case Redis:
		r.checkRedis()
		r.advisePlain("lock.redis.password_file", lock.Redis.Password, lock.Redis.TLS, lock.Redis.Insecure, lock.Redis.Addrs)
	case Quorum:
		r.checkQuorum()
		r.advisePlain("lock.quorum.password_file", lock.Quorum.Password, lock.Quorum.TLS, lock.Quorum.Insecure, lock.Quorum.Addrs())
	case ZooKeeper:
		r.checkZooKeeper()
		r.advisePlain("lock.zookeeper.auth_file", lock.ZooKeeper.Auth, lock.ZooKeeper.TLS, lock.ZooKeeper.Insecure, lock.ZooKeeper.Servers)
	}
	if root := lock.ZooKeeper.Root; !zookeeperRoot.MatchString(root) {
		r.refuse("lock.zookeeper.root", "is not a path for ZooKeeper", "it starts with / and does not end with it: /lockstep")
	}
}

// checkZooKeeper equates lock.ttl and session_timeout: a lock on ZooKeeper lives as long as its session.
func (r *reader) checkZooKeeper() {
	lock := &r.c.Lock
	if len(lock.ZooKeeper.Servers) == 0 {
		r.refuse("lock.zookeeper.servers", "is empty", `write ["127.0.0.1:2181"]`)
	}
	switch addr := lock.ZooKeeper.unguarded(); {
	case lock.ZooKeeper.Unguarded && lock.ZooKeeper.Auth != "":
		r.advise("lock.zookeeper.insecure", "has no effect: there is a login, see auth_file", "remove it")
	case addr != "" && !lock.ZooKeeper.Unguarded && !r.wrote("lock.zookeeper.auth_file"): // the file's problem is reported already
		r.refuse("lock.zookeeper.servers", "without auth_file, every client that reaches "+addr+" can take, free and change the locks",
			"write user:password into a file and name it in lock.zookeeper.auth_file; or, in a private network, write lock.zookeeper.insecure: true")
	}
	const path = "lock.zookeeper.session_timeout"
	switch {
	case lock.ZooKeeper.SessionTimeout == lock.TTL:
	case !r.wrote(path):
		lock.ZooKeeper.SessionTimeout = lock.TTL
	case !r.wrote("lock.ttl"):
		lock.TTL = lock.ZooKeeper.SessionTimeout
	default:
		r.refuse(path, fmt.Sprintf("%v differs from lock.ttl, %v, and a ZooKeeper lock lives as long as its session", lock.ZooKeeper.SessionTimeout, lock.TTL), "set one of them")
	}
}

var zookeeperRoot = regexp.MustCompile(`^(/[a-zA-Z0-9_-][a-zA-Z0-9._-]*)+$`)

func (r *reader) checkRedis() {
	redis := r.c.Lock.Redis
	switch {
	case len(redis.Addrs) == 0:
		r.refuse("lock.redis.addrs", "is empty", `write ["127.0.0.1:6379"]`)
	case redis.Mode == "standalone" && len(redis.Addrs) > 1:
		r.refuse("lock.redis.addrs", "several addresses need mode: sentinel or mode: cluster", "")
	}
	if redis.Mode == "sentinel" && redis.MasterName == "" {
		r.refuse("lock.redis.mode", "sentinel needs master_name", "")
	}
	if redis.Mode != "sentinel" && redis.MasterName != "" {
		r.refuse("lock.redis.master_name", "is for mode: sentinel only", "")
	}
	if redis.Mode != "sentinel" && redis.SentinelPassword != "" {
		r.refuse("lock.redis.sentinel_password_file", "is for mode: sentinel only", "the servers' own password is in password_file")
	}
	if redis.Mode == "cluster" && redis.DB != 0 {
		r.refuse("lock.redis.db", "a cluster has database 0 only", "")
	}
}

// checkQuorum wants each server once. What is one server under several names is found at its start.
func (r *reader) checkQuorum() {
	const path = "lock.quorum.nodes"
	nodes := r.c.Lock.Quorum.Nodes
	if len(nodes) < 3 {
		r.refuse(path, fmt.Sprintf("has %d servers; a majority that outlives one needs 3 at least", len(nodes)),
			`write one for each server: [{addrs: ["10.0.0.1:6379"]}, …]`)
		return
	}
	if len(nodes) > 63 {
		r.refuse(path, fmt.Sprintf("has %d servers; 63 at most", len(nodes)), "")
	}
	seen := map[string]bool{}
	for i, n := range nodes {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case len(n.Addrs) != 1:
			r.refuse(at, fmt.Sprintf("has %d addresses; each node is one server", len(n.Addrs)), `write {addrs: ["10.0.0.1:6379"]}`)
		case seen[n.Addrs[0]]:
			r.refuse(at, n.Addrs[0]+" is named twice: it would vote twice", "")
		default:
			seen[n.Addrs[0]] = true
		}
	}
	if len(nodes)%2 == 0 {
		r.advise(path, fmt.Sprintf("%d servers outlive the loss of %d, as %d do", len(nodes), (len(nodes)-1)/2, len(nodes)-1), "take an odd number")
	}
}

// addressesField takes a list of host:port.
func addressesField[T any](place func(*T) *[]string) read[T] {
	return field((*reader).addresses, place)
}

func (r *reader) addresses(n *yaml.Node) ([]string, bool) {
	addrs := r.texts(n, func(item *yaml.Node) (string, bool) {
		value, ok := r.text(item)
		if !ok {
			return "", false
		}
		host, port, err := net.SplitHostPort(value)
		if p, perr := strconv.Atoi(port); err != nil || host == "" || perr != nil || p < 1 || p > 65535 {
			what, hint := quote(item), "write host:port"
			if strings.Contains(value, "@") { // as in redis://:password@host
				what, hint = "this", "write host:port; a user and a password have keys of their own"
			}
			r.fail(item, what+" is not an address", hint)
			return "", false
		}
		return value, true
	})
	return addrs, len(addrs) > 0 || empty(n)
}

// nameField takes a name like those of jobs, or nothing.
func nameField[T any](place func(*T) *string) read[T] { return field((*reader).name, place) }

func (r *reader) name(n *yaml.Node) (string, bool) {
	value, ok := r.given(n)
	if ok && !naming.Pattern.MatchString(value) {
		r.fail(n, quote(n)+" is not a name", naming.Hint)
		return "", false
	}
	return value, ok
}
