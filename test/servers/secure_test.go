package servers_test

import (
	"bufio"
	"crypto/tls"
	"database/sql"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestSecureRedis(t *testing.T) {
	t.Parallel()
	a := servers.NewAuthority(t)
	s := servers.NewSecureRedis(t, servers.Secure{Authority: a, ClientCerts: true, Password: "secret"})
	c := handshake(t, s.Addr, a.TLS(a.Client("tester")))
	_, _ = c.Write([]byte("AUTH secret\r\n"))
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "+OK\r\n" {
		t.Errorf("AUTH: %q, %v", line, err)
	}
	bare := handshake(t, s.Addr, a.TLS())
	_, _ = bare.Write([]byte("AUTH secret\r\n"))
	if line, err := bufio.NewReader(bare).ReadString('\n'); err == nil {
		t.Errorf("without a certificate: %q", line)
	}
	if _, err := tls.Dial("tcp", s.Addr, servers.NewAuthority(t).TLS()); err == nil {
		t.Error("another certificate was trusted")
	}
}

func TestSecureMySQL(t *testing.T) {
	t.Parallel()
	a := servers.NewAuthority(t)
	s := servers.NewSecureMySQL(t, servers.Secure{Authority: a})
	s.Exec("CREATE USER alice@'%' IDENTIFIED BY 'secret' REQUIRE SSL", "CREATE USER bob@'%' IDENTIFIED BY 'secret' REQUIRE X509")
	for name, c := range map[string]struct {
		user string
		tls  *tls.Config
		ok   bool
	}{
		"plain":                 {"alice", nil, false},
		"with TLS":              {"alice", a.TLS(), true},
		"without a certificate": {"bob", a.TLS(), false},
		"with a certificate":    {"bob", a.TLS(a.Client("bob")), true},
		"with another trust":    {"alice", servers.NewAuthority(t).TLS(), false},
	} {
		dsn, err := mysql.ParseDSN(s.DSNAs(c.user, "secret", ""))
		if err != nil {
			t.Fatal(err)
		}
		dsn.TLS, dsn.Logger = c.tls, &mysql.NopLogger{}
		connector, err := mysql.NewConnector(dsn)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		if err := db.Ping(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		_ = db.Close()
	}
}

func TestSecureZooKeeper(t *testing.T) {
	t.Parallel()
	a := servers.NewAuthority(t)
	s := servers.NewSecureZooKeeper(t, servers.Secure{Authority: a})
	c := handshake(t, s.SecureAddr, a.TLS())
	_, _ = c.Write([]byte("ruok"))
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "imok" {
		t.Errorf("ruok: %q, %v", line, err)
	}
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := servers.NewEnsemble(t)
	first := e.Leader()
	first.Kill()
	if e.Leader() == first {
		t.Error("a killed server leads")
	}
	e.Start(first)
	if got := tell(t, first.Addr, "ruok"); got != "imok" {
		t.Errorf("ruok: %q", got)
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	set := servers.NewSentinel(t, servers.Secure{Password: "secret"})
	master := func() string {
		c, err := net.Dial("tcp", set.Sentinels[0].Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = c.Write([]byte("AUTH secret\r\nSENTINEL GET-MASTER-ADDR-BY-NAME " + servers.MasterName + "\r\n"))
		_ = c.(*net.TCPConn).CloseWrite()
		var lines []string
		for scan := bufio.NewScanner(c); scan.Scan(); {
			lines = append(lines, scan.Text())
		}
		if len(lines) < 6 {
			t.Fatalf("%q", lines)
		}
		return strings.Join([]string{lines[3], lines[5]}, ":")
	}
	if got := master(); got != set.Master.Addr {
		t.Errorf("master %s, want %s", got, set.Master.Addr)
	}
	set.Master.Kill()
	await.Until(t, "the replica is the master", func() bool { return master() == set.Replica.Addr })
}

func handshake(t *testing.T, addr string, settings *tls.Config) net.Conn {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", addr, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}
