package config

import (
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/go-sql-driver/mysql"
)

// unchecked is the effect of tls.insecure.
const unchecked = "the server's certificate is not verified (tls.insecure)"

// weakDSN lists options of a DSN that are weaker than TLS with a verified certificate. A DSN without TLS is not weak:
// it does not claim to be secure. settings are those of the section tls, which take precedence.
func weakDSN(d *mysql.Config, settings *tls.Config) (all []string) {
	checked := d.TLSConfig == "true"
	switch {
	case settings != nil:
		if checked = !settings.InsecureSkipVerify; !checked {
			all = append(all, unchecked)
		}
	case d.TLSConfig == "skip-verify":
		all = append(all, "tls=skip-verify: the server's certificate is not verified")
	case d.TLSConfig == "preferred":
		all = append(all, "tls=preferred: no certificate is verified, and a server without TLS is accepted")
	}
	if d.AllowFallbackToPlaintext && d.TLSConfig != "preferred" { // which sets it
		all, checked = append(all, "allowFallbackToPlaintext=true: a server without TLS is accepted"), false
	}
	if d.AllowCleartextPasswords && !checked {
		all = append(all, "allowCleartextPasswords=true: any server that answers gets the password in plain text")
	}
	if d.AllowOldPasswords {
		all = append(all, "allowOldPasswords=true: the password can be computed from its old hash, which crosses the network")
	}
	return all
}

// refuseWeak refuses weak options of a DSN unless insecure allows them.
func (r *reader) refuseWeak(section, path string, d *mysql.Config, settings *tls.Config, insecure bool) {
	if d.AllowAllFiles {
		r.refuse(path, "has allowAllFiles=true: the server could read any file of this machine", "remove it")
	}
	if insecure {
		return
	}
	for _, weak := range weakDSN(d, settings) {
		r.refuse(path, "has "+weak, "remove it and fill "+section+".tls; or, in a private network, write "+section+".tls: {insecure: true}")
	}
}

// Weak describes connections to the store and to the lock service that a key insecure weakens.
func (c *Config) Weak() (all []string) {
	dsn := func(where, text string, settings *tls.Config) {
		d, err := mysql.ParseDSN(text)
		if err != nil {
			return
		}
		for _, weak := range weakDSN(d, settings) {
			all = append(all, where+": "+weak)
		}
	}
	if c.Store.Driver == MySQL {
		dsn("store", c.Store.DSN, c.Store.TLS)
	}
	settings := map[string]*tls.Config{Redis: c.Lock.Redis.TLS, Quorum: c.Lock.Quorum.TLS, ZooKeeper: c.Lock.ZooKeeper.TLS}[c.Lock.Driver]
	if c.Lock.Driver == ZooKeeper && c.Lock.ZooKeeper.unguarded() != "" {
		all = append(all, "lock: every client that reaches the servers can take, free and change the locks (zookeeper.insecure, without auth_file)")
	}
	switch {
	case c.LockInStore():
	case c.Lock.Driver == MySQL:
		dsn("lock", c.Lock.MySQL.DSN, c.Lock.MySQL.TLS)
	case settings != nil && settings.InsecureSkipVerify:
		all = append(all, "lock: "+unchecked)
	}
	return all
}

// advisePlain warns about a password that crosses a network in plain text. MySQL uses challenges instead.
func (r *reader) advisePlain(path string, password string, settings *tls.Config, insecure bool, addrs []string) {
	if password == "" || settings != nil || insecure {
		return
	}
	if addr := elsewhere(addrs); addr != "" {
		r.advise(path, "is sent to "+addr+" in plain text", "fill the section tls; or, in a private network, write tls: {enabled: false, insecure: true}")
	}
}

// unguarded is the first address that other machines reach, if the nodes have no access control; else "".
func (z ZooKeeperLock) unguarded() string {
	if z.Auth != "" {
		return ""
	}
	return elsewhere(z.Servers)
}

// elsewhere is the first address that is not loopback; "" for none.
func elsewhere(addrs []string) string {
	for _, addr := range addrs {
		host, _, _ := net.SplitHostPort(addr)
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return addr
		}
	}
	return ""
}
