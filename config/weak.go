package config

import (
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/go-sql-driver/mysql"
)

// unchecked is what tls.insecure does by itself.
const unchecked = "the server's certificate is not checked (tls.insecure)"

// weakDSN says what in a DSN is weaker than TLS with a certificate that is checked; a DSN without TLS asks
// for nothing else, and is not. settings are those of the section tls, which come first.
func weakDSN(d *mysql.Config, settings *tls.Config) (all []string) {
	checked := d.TLSConfig == "true"
	switch {
	case settings != nil:
		if checked = !settings.InsecureSkipVerify; !checked {
			all = append(all, unchecked)
		}
	case d.TLSConfig == "skip-verify":
		all = append(all, "tls=skip-verify: the server's certificate is not checked")
	case d.TLSConfig == "preferred":
		all = append(all, "tls=preferred: no certificate is checked, and a server without TLS is taken, too")
	}
	if d.AllowFallbackToPlaintext && d.TLSConfig != "preferred" { // which sets it
		all, checked = append(all, "allowFallbackToPlaintext=true: a server without TLS is taken, too"), false
	}
	if d.AllowCleartextPasswords && !checked {
		all = append(all, "allowCleartextPasswords=true: any server that answers gets the password in plain text")
	}
	if d.AllowOldPasswords {
		all = append(all, "allowOldPasswords=true: the password can be computed from its old hash, which the network shows")
	}
	return all
}

// refuseWeak takes of a DSN what is weak only if the section says so.
func (r *reader) refuseWeak(section, path string, d *mysql.Config, settings *tls.Config, insecure bool) {
	if d.AllowAllFiles {
		r.refuse(path, "has allowAllFiles=true: the server could read any file of this machine", "remove it; nothing here needs it")
	}
	if insecure {
		return
	}
	for _, weak := range weakDSN(d, settings) {
		r.refuse(path, "has "+weak, "remove it and fill "+section+".tls; or, in a network that is yours alone, write "+section+".tls: {insecure: true}")
	}
}

// Weak says which of the connections to the store and to the lock service are weaker than they could be because
// a key insecure allows it, for the log and for people.
func (c *Config) Weak() (all []string) {
	add := func(where string, weak ...string) {
		for _, w := range weak {
			all = append(all, where+": "+w)
		}
	}
	dsn := func(where, text string, settings *tls.Config) {
		if d, err := mysql.ParseDSN(text); err == nil {
			add(where, weakDSN(d, settings)...)
		}
	}
	if c.Store.Driver == MySQL {
		dsn("store", c.Store.DSN, c.Store.TLS)
	}
	settings := map[string]*tls.Config{Redis: c.Lock.Redis.TLS, ZooKeeper: c.Lock.ZooKeeper.TLS}[c.Lock.Driver]
	if c.Lock.Driver == ZooKeeper && c.Lock.ZooKeeper.unguarded() != "" {
		add("lock", "every client that reaches the servers can take, free and change the locks (zookeeper.insecure, without auth_file)")
	}
	switch {
	case c.LockInStore():
	case c.Lock.Driver == MySQL:
		dsn("lock", c.Lock.MySQL.DSN, c.Lock.MySQL.TLS)
	case settings != nil && settings.InsecureSkipVerify:
		add("lock", unchecked)
	}
	return all
}

// advisePlain says of a password that goes over a network as it is. MySQL has challenges for that.
func (r *reader) advisePlain(path string, password string, settings *tls.Config, insecure bool, addrs []string) {
	if password == "" || settings != nil || insecure {
		return
	}
	if addr := elsewhere(addrs); addr != "" {
		r.advise(path, "goes to "+addr+" in plain text, for all on the way to read", "fill the section tls; or, in a network that is yours alone, write tls: {enabled: false, insecure: true}")
	}
}

// unguarded is the first address of servers that other machines reach and whose nodes everybody can change; empty if there
// is none.
func (z ZooKeeperLock) unguarded() string {
	if z.Auth != "" {
		return ""
	}
	return elsewhere(z.Servers)
}

// elsewhere is the first address that is not this machine's loopback; empty if all are.
func elsewhere(addrs []string) string {
	for _, addr := range addrs {
		host, _, _ := net.SplitHostPort(addr)
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return addr
		}
	}
	return ""
}
