package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // they wait more than they work
	os.Exit(programs.Main(m))
}

const (
	right = "correct-horse"
	wrong = "tr0ub4dor-and-3"
)

// secured are servers with a password and TLS, and their credentials.
type secured struct {
	dir              string
	authority, other *servers.Authority
	client           servers.Certificate
}

func newSecured(t *testing.T) *secured {
	a := servers.NewAuthority(t)
	return &secured{dir: t.TempDir(), authority: a, other: servers.NewAuthority(t), client: a.Client("replica")}
}

// file writes a secret and returns its path.
func (s *secured) file(t *testing.T, content string) string {
	t.Helper()
	f, err := os.CreateTemp(s.dir, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(content + "\n"); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// The sections named tls.
func (s *secured) trusted() string { return fmt.Sprintf("{ca_file: %q}", s.authority.CAFile) }
func (s *secured) misled() string  { return fmt.Sprintf("{ca_file: %q}", s.other.CAFile) }
func (s *secured) careless() string {
	return fmt.Sprintf("{ca_file: %q, insecure: true}", s.other.CAFile)
}
func (s *secured) shown() string {
	return fmt.Sprintf("{ca_file: %q, cert_file: %q, key_file: %q}", s.authority.CAFile, s.client.CertFile, s.client.KeyFile)
}

// A start with a wrong password, a wrong certificate or none fails, and does not wait for ever; the error names the place and the cause, and
// has no password. With the right ones it works.
func TestSecuredBackends(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	for name, cases := range map[string]func(t *testing.T, s *secured) []start{
		"redis": redisStarts, "sentinel": sentinelStarts, "zookeeper": zooKeeperStarts, "mysql": mysqlStarts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases(t, s) {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.test(t)
				})
			}
		})
	}
}

// start is one start of a replica.
type start struct {
	name, config string
	want         []string // in the error; none: it starts
}

func (c start) test(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	text := "version: 1\nserver: {listen: \"127.0.0.1:0\"}\njobs: {a: {command: [echo]}}\n" + c.config + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.want == nil {
		c.works(t, path)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	code := run(ctx, []string{"serve", "-c", path}, strings.NewReader(""), &out, &out)
	if ctx.Err() != nil {
		t.Error("it did not end by itself")
	}
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range c.want {
		// Alternatives with |: on a slow machine the probe of the port may come first.
		if !slices.ContainsFunc(strings.Split(want, "|"), func(w string) bool { return strings.Contains(out.String(), w) }) {
			t.Errorf("it does not say %q", want)
		}
	}
	for _, secret := range []string{right, wrong} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("it contains the password")
		}
	}
	t.Logf("%s", &out)
}

// works opens the lock service of the file and takes a lock.
func (c start) works(t *testing.T, path string) {
	t.Helper()
	loaded, err := config.Load(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := openParts(t.Context(), loaded)
	for range 3 { // a busy machine
		if errors.Is(err, context.DeadlineExceeded) {
			p, err = openParts(t.Context(), loaded)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if p.locker == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []locks.Attempt
	await.Until(t, "a lock service that is young grants, which a new Redis does after a ttl", func() bool {
		got, err = p.locker.TryAcquire(ctx, locks.Request{Key: "a"})
		wait := errors.Is(err, locks.ErrRecovering) || p.lockErr != nil && errors.Is(err, locks.ErrUnavailable) // a busy machine
		return !wait || ctx.Err() != nil
	})
	if err != nil || got[0].Lease == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := got[0].Lease.Release(ctx); err != nil {
		t.Error(err)
	}
}

func redisStarts(t *testing.T, s *secured) []start {
	srv := servers.NewSecureRedis(t, servers.Secure{Authority: s.authority, Password: right})
	picky := servers.NewSecureRedis(t, servers.Secure{Authority: s.authority, Password: right, ClientCerts: true})
	late := servers.NewSecureRedis(t, servers.Secure{Authority: s.authority, Certificate: s.authority.Expired(), Password: right})
	plain := servers.NewSecureRedis(t, servers.Secure{Password: right})
	lock := func(addr, password, tls string) string {
		file := `""`
		if password != "" {
			file = fmt.Sprintf("%q", s.file(t, password))
		}
		return fmt.Sprintf(`lock: {driver: redis, ttl: 2s, redis: {addrs: [%q], password_file: %s, tls: %s}}`, addr, file, tls)
	}
	return []start{
		{"right", lock(srv.Addr, right, s.trusted()), nil},
		{"right without TLS", lock(plain.Addr, right, "{}"), nil},
		{"right with a certificate", lock(picky.Addr, right, s.shown()), nil},
		{"wrong authority, not verified", lock(srv.Addr, right, s.careless()), nil},
		{"wrong password", lock(srv.Addr, wrong, s.trusted()), []string{srv.Addr, "password"}},
		{"no password", lock(srv.Addr, "", s.trusted()), []string{srv.Addr, "password"}},
		{"wrong authority", lock(srv.Addr, right, s.misled()), []string{srv.Addr, "not trusted here"}},
		{"expired", lock(late.Addr, right, s.trusted()), []string{late.Addr, "out of its time"}},
		{"no TLS", lock(srv.Addr, right, "{}"), []string{srv.Addr, "perhaps it wants TLS|a server with TLS answers"}},
		{"TLS where there is none", lock(plain.Addr, right, s.trusted()), []string{plain.Addr, "does not speak TLS at this port|without TLS answers"}},
		{"no certificate", lock(picky.Addr, right, s.trusted()), []string{picky.Addr, "certificate"}},
	}
}

func sentinelStarts(t *testing.T, s *secured) []start {
	set := servers.NewSentinel(t, servers.Secure{Authority: s.authority, Password: right})
	lock := func(server, sentinel, tls, master string) string {
		return fmt.Sprintf(`lock: {driver: redis, ttl: 2s, redis: {mode: sentinel, addrs: [%q], master_name: %s, password_file: %q, sentinel_password_file: %q, tls: %s}}`,
			set.Addrs()[0], master, s.file(t, server), s.file(t, sentinel), tls)
	}
	sentinel := set.Addrs()[0]
	return []start{
		{"right", lock(right, right, s.trusted(), servers.MasterName), nil},
		{"wrong password", lock(wrong, right, s.trusted(), servers.MasterName), []string{sentinel, "password"}},
		{"wrong password of the sentinels", lock(right, wrong, s.trusted(), servers.MasterName), []string{sentinel, "password"}},
		{"wrong authority", lock(right, right, s.misled(), servers.MasterName), []string{sentinel, "not trusted here"}},
		{"no TLS", lock(right, right, "{}", servers.MasterName), []string{sentinel, "perhaps it wants TLS|a server with TLS answers"}},
		{"unknown master", lock(right, right, s.trusted(), "nobody"), []string{sentinel, "nobody"}},
	}
}

func zooKeeperStarts(t *testing.T, s *secured) []start {
	srv := servers.NewSecureZooKeeper(t, servers.Secure{Authority: s.authority})
	picky := servers.NewSecureZooKeeper(t, servers.Secure{Authority: s.authority, ClientCerts: true})
	late := servers.NewSecureZooKeeper(t, servers.Secure{Authority: s.authority, Certificate: s.authority.Expired()})
	lock := func(addr, root, password, tls string) string {
		file := `""`
		if password != "" {
			file = fmt.Sprintf("%q", s.file(t, "alice:"+password))
		}
		return fmt.Sprintf(`lock: {driver: zookeeper, ttl: 6s, zookeeper: {servers: [%q], root: %s, auth_file: %s, tls: %s}}`, addr, root, file, tls)
	}
	owned := start{"", "name: prod\n" + lock(srv.SecureAddr, "/owned", right, s.trusted()), nil}
	owned.test(t) // makes the nodes
	return []start{
		{"right", lock(srv.SecureAddr, "/a", right, s.trusted()), nil},
		{"right without TLS", lock(srv.Addr, "/b", right, "{}"), nil},
		{"right with a certificate", lock(picky.SecureAddr, "/c", right, s.shown()), nil},
		{"wrong authority, not verified", lock(srv.SecureAddr, "/d", right, s.careless()), nil},
		{"wrong password", "name: prod\n" + lock(srv.SecureAddr, "/owned", wrong, s.trusted()), []string{srv.SecureAddr, `another user of ZooKeeper than "alice"`}},
		{"no password", "name: prod\n" + lock(srv.SecureAddr, "/owned", "", s.trusted()), []string{srv.SecureAddr, "no user is given"}},
		{"wrong authority", lock(srv.SecureAddr, "/a", right, s.misled()), []string{srv.SecureAddr, "not trusted here"}},
		{"expired", lock(late.SecureAddr, "/a", right, s.trusted()), []string{late.SecureAddr, "out of its time"}},
		{"no TLS", lock(srv.SecureAddr, "/a", right, "{}"), []string{"a server with TLS answers at " + srv.SecureAddr + ", not ZooKeeper without TLS; if that is the right one, set lock.zookeeper.tls.enabled"}},
		{"TLS where there is none", lock(srv.Addr, "/a", right, s.trusted()), []string{srv.Addr, "does not speak TLS at this port|without TLS answers"}},
		{"no certificate", lock(picky.SecureAddr, "/a", right, s.trusted()), []string{picky.SecureAddr, "certificate"}},
	}
}

// mysqlStarts has each case twice: as the store, and as a lock service of its own.
func mysqlStarts(t *testing.T, s *secured) (all []start) {
	srv := servers.NewSecureMySQL(t, servers.Secure{Authority: s.authority})
	late := servers.NewSecureMySQL(t, servers.Secure{Authority: s.authority, Certificate: s.authority.Expired()})
	plain := servers.NewMySQL(t, "--skip-ssl")
	for _, m := range []*servers.MySQLServer{srv, late, plain} {
		for user, needs := range map[string]string{"alice": "REQUIRE SSL", "bob": "REQUIRE X509", "carol": ""} {
			m.Exec(fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY '%s' %s", user, right, needs),
				"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON store.* TO "+user+"@'%'",
				"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON locks.* TO "+user+"@'%'") // what docs/backends.md says
		}
	}
	at := func(m *servers.MySQLServer) string {
		_, rest, _ := strings.Cut(m.DSNAs("u", "p", ""), "@tcp(")
		addr, _, _ := strings.Cut(rest, ")")
		return addr
	}
	for _, c := range []struct {
		name           string
		at             *servers.MySQLServer
		user, password string
		tls            string
		want           []string
	}{
		{"right", srv, "alice", right, s.trusted(), nil},
		{"right without TLS", plain, "carol", right, "{}", nil},
		{"right with a certificate", srv, "bob", right, s.shown(), nil},
		{"wrong authority, not verified", srv, "alice", right, s.careless(), nil},
		{"wrong password", srv, "alice", wrong, s.trusted(), []string{"Access denied", "alice"}},
		{"wrong authority", srv, "alice", right, s.misled(), []string{"not trusted here"}},
		{"expired", late, "alice", right, s.trusted(), []string{"out of its time"}},
		{"no TLS", srv, "alice", right, "{}", []string{"Access denied", "TLS"}},
		{"TLS where there is none", plain, "carol", right, s.trusted(), []string{"does not support TLS"}},
		{"no certificate", srv, "bob", right, s.trusted(), []string{"Access denied", "certificate"}},
	} {
		want := c.want
		if want != nil {
			want = append([]string{at(c.at)}, want...)
		}
		all = append(all,
			start{"store/" + c.name, fmt.Sprintf("store: {driver: mysql, dsn: %q, tls: %s}", c.at.DSNAs(c.user, c.password, "store"), c.tls), want},
			start{"lock/" + c.name, fmt.Sprintf("lock: {driver: mysql, mysql: {dsn: %q, tls: %s}}", c.at.DSNAs(c.user, c.password, "locks"), c.tls), want})
	}
	return all
}
