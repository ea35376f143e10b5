package config

import (
	"crypto/tls"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// documentKeys are the keys of the main file. Those of unread are read later, in their order.
var documentKeys = schema[Config]{
	"version":  unread,
	"name":     nameField(func(c *Config) *string { return &c.Set.Name }),
	"include":  unread,
	"watch":    flagField(func(c *Config) *bool { return &c.Watch }),
	"replica":  section(replicaKeys, func(c *Config) *scheduler.Options { return &c.Replica }),
	"store":    section(storeKeys, func(c *Config) *Store { return &c.Store }),
	"lock":     section(lockKeys, func(c *Config) *Lock { return &c.Lock }),
	"server":   section(serverKeys, func(c *Config) *Server { return &c.Server }),
	"defaults": unread,
	"pools":    unread,
	"jobs":     unread,

	"calendars": unread,
	"ping":      readPing,
}

func unread(*reader, *yaml.Node, *Config) {}

var replicaKeys = schema[scheduler.Options]{
	"id":             nameField(func(o *scheduler.Options) *string { return &o.ID }),
	"workers":        numberField(1, limits.Workers, func(o *scheduler.Options) *int { return &o.Workers }),
	"labels":         mapField(func(o *scheduler.Options) *map[string]string { return &o.Labels }),
	"session_ttl":    durationField(3*time.Second, func(o *scheduler.Options) *time.Duration { return &o.SessionTTL }),
	"drain_timeout":  durationField(positive, func(o *scheduler.Options) *time.Duration { return &o.DrainTimeout }),
	"max_clock_skew": durationField(100*time.Millisecond, func(o *scheduler.Options) *time.Duration { return &o.MaxClockSkew }),
}

var storeKeys = schema[Store]{
	"driver":       choiceField([]string{SQLite, MySQL}, func(c *Store) *string { return &c.Driver }),
	"dsn":          secretField(func(c *Store) *string { return &c.DSN }),
	"dsn_file":     secretFileField(func(c *Store) *string { return &c.DSN }),
	"tls":          tlsField(func(c *Store) **tls.Config { return &c.TLS }, func(c *Store) *bool { return &c.Insecure }),
	"migrate":      choiceField([]string{"auto", "manual"}, func(c *Store) *string { return &c.Migrate }),
	"table_prefix": textField(func(c *Store) *string { return &c.TablePrefix }),
	"retention":    section(retentionKeys, func(c *Store) *jobs.Retention { return &c.Retention }),
}

var retentionKeys = schema[jobs.Retention]{
	"triggers":  durationField(time.Minute, func(c *jobs.Retention) *time.Duration { return &c.Triggers }),
	"succeeded": durationField(time.Minute, func(c *jobs.Retention) *time.Duration { return &c.Succeeded }),
	"failed":    durationField(time.Minute, func(c *jobs.Retention) *time.Duration { return &c.Failed }),
	"output":    durationField(time.Minute, func(c *jobs.Retention) *time.Duration { return &c.Output }),
}

var lockKeys = schema[Lock]{
	"driver":    readLockDriver,
	"ttl":       durationField(time.Second, func(c *Lock) *time.Duration { return &c.TTL }),
	"when_down": choiceField([]string{"store", "wait"}, func(c *Lock) *string { return &c.WhenDown }),
	"redis":     section(redisKeys, func(c *Lock) *RedisLock { return &c.Redis }),
	"zookeeper": section(zookeeperKeys, func(c *Lock) *ZooKeeperLock { return &c.ZooKeeper }),
	"mysql":     section(mysqlKeys, func(c *Lock) *MySQLLock { return &c.MySQL }),
	"quorum":    section(quorumKeys, func(c *Lock) *QuorumLock { return &c.Quorum }),
}

// readLockDriver knows more names than it accepts, to explain why.
func readLockDriver(r *reader, n *yaml.Node, into *Lock) {
	switch from := deref(n); {
	case from.Kind == yaml.ScalarNode && from.Value == "":
		return // the store's own database
	case from.Value == "memory":
		r.fail(n, "a lock in memory cannot exclude: every replica has its own", "remove the key to lock in the store's own database")
	default:
		choiceField([]string{SQLite, MySQL, Redis, ZooKeeper, Quorum}, func(c *Lock) *string { return &c.Driver })(r, n, into)
	}
}

var redisKeys = schema[RedisLock]{
	"mode":                   choiceField([]string{"standalone", "sentinel", "cluster"}, func(c *RedisLock) *string { return &c.Mode }),
	"addrs":                  addressesField(func(c *RedisLock) *[]string { return &c.Addrs }),
	"username":               textField(func(c *RedisLock) *string { return &c.Username }),
	"password_file":          secretFileField(func(c *RedisLock) *string { return &c.Password }),
	"db":                     numberField(0, 1000, func(c *RedisLock) *int { return &c.DB }),
	"master_name":            textField(func(c *RedisLock) *string { return &c.MasterName }),
	"sentinel_username":      textField(func(c *RedisLock) *string { return &c.SentinelUsername }),
	"sentinel_password_file": secretFileField(func(c *RedisLock) *string { return &c.SentinelPassword }),
	"tls":                    tlsField(func(c *RedisLock) **tls.Config { return &c.TLS }, func(c *RedisLock) *bool { return &c.Insecure }),
}

var quorumKeys = schema[QuorumLock]{
	"nodes":         readNodes,
	"username":      textField(func(c *QuorumLock) *string { return &c.Username }),
	"password_file": secretFileField(func(c *QuorumLock) *string { return &c.Password }),
	"db":            numberField(0, 1000, func(c *QuorumLock) *int { return &c.DB }),
	"tls":           tlsField(func(c *QuorumLock) **tls.Config { return &c.TLS }, func(c *QuorumLock) *bool { return &c.Insecure }),
}

var nodeKeys = schema[QuorumNode]{
	"addrs": addressesField(func(c *QuorumNode) *[]string { return &c.Addrs }),
}

// readNodes takes a list of servers.
func readNodes(r *reader, n *yaml.Node, into *QuorumLock) {
	into.Nodes = nil
	r.items(n, func(item *yaml.Node) {
		var node QuorumNode
		object(r, item, nodeKeys, &node)
		into.Nodes = append(into.Nodes, node)
	})
}

var zookeeperKeys = schema[ZooKeeperLock]{
	"servers":         addressesField(func(c *ZooKeeperLock) *[]string { return &c.Servers }),
	"root":            textField(func(c *ZooKeeperLock) *string { return &c.Root }),
	"auth_file":       readAuthFile,
	"insecure":        flagField(func(c *ZooKeeperLock) *bool { return &c.Unguarded }),
	"tls":             tlsField(func(c *ZooKeeperLock) **tls.Config { return &c.TLS }, func(c *ZooKeeperLock) *bool { return &c.Insecure }),
	"session_timeout": durationField(time.Second, func(c *ZooKeeperLock) *time.Duration { return &c.SessionTimeout }),
}

// readAuthFile takes a file with user:password; "digest user:password", the form of ZooKeeper's own client, says the
// same.
func readAuthFile(r *reader, n *yaml.Node, into *ZooKeeperLock) {
	line, ok := r.secret(n)
	if !ok { // no file, or reported
		return
	}
	auth := strings.TrimSpace(strings.TrimPrefix(line, "digest "))
	if user, password, ok := strings.Cut(auth, ":"); !ok || user == "" || password == "" {
		r.fail(n, "the file does not hold a login", "write one line into it: user:password")
		return
	}
	into.Auth = auth
}

var mysqlKeys = schema[MySQLLock]{
	"dsn":      secretField(func(c *MySQLLock) *string { return &c.DSN }),
	"dsn_file": secretFileField(func(c *MySQLLock) *string { return &c.DSN }),
	"tls":      tlsField(func(c *MySQLLock) **tls.Config { return &c.TLS }, func(c *MySQLLock) *bool { return &c.Insecure }),
	"mode":     choiceField([]string{"lease", "row"}, func(c *MySQLLock) *string { return &c.Mode }),
}
