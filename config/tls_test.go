package config_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The four sections named tls behave alike.
func TestTLSSections(t *testing.T) {
	a := servers.NewAuthority(t)
	cert, other := a.Client("replica"), a.Client("other")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	sections := map[string]func(*config.Config) *tls.Config{
		`store: {driver: mysql, dsn: "u:p@tcp(db:3306)/a", tls: %s}`:         func(c *config.Config) *tls.Config { return c.Store.TLS },
		`lock: {driver: redis, redis: {tls: %s}}`:                            func(c *config.Config) *tls.Config { return c.Lock.Redis.TLS },
		`lock: {driver: zookeeper, zookeeper: {tls: %s}}`:                    func(c *config.Config) *tls.Config { return c.Lock.ZooKeeper.TLS },
		`lock: {driver: mysql, mysql: {dsn: "u:p@tcp(db:3306)/a", tls: %s}}`: func(c *config.Config) *tls.Config { return c.Lock.MySQL.TLS },
	}
	for section, of := range sections {
		load := func(settings string, args ...any) (*config.Config, error) {
			t.Helper()
			return config.LoadBytes("lockstep.yaml", fmt.Appendf(nil, "version: 1\n"+section+"\n", fmt.Sprintf(settings, args...)), config.Options{})
		}
		for settings, on := range map[string]bool{
			"{}": false, "{enabled: false}": false, "{enabled: true}": true, "{server_name: db}": true,
			fmt.Sprintf("{enabled: false, ca_file: %q}", a.CAFile): false,
		} {
			c, err := load("%s", settings)
			if err != nil {
				t.Fatal(err)
			}
			if (of(c) != nil) != on {
				t.Errorf("%s: %s: TLS: %v, want %v", section, settings, of(c) != nil, on)
			}
		}
		c, err := load("{ca_file: %q, cert_file: %q, key_file: %q, server_name: db}", a.CAFile, cert.CertFile, cert.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		if s := of(c); s.ServerName != "db" || !s.RootCAs.Equal(a.TLS().RootCAs) || len(s.Certificates) != 1 || s.MinVersion != tls.VersionTLS12 {
			t.Errorf("%s: %+v", section, s)
		}
		for want, settings := range map[string]string{
			"does not match":           fmt.Sprintf("{cert_file: %q, key_file: %q}", cert.CertFile, other.KeyFile),
			"are not a certificate":    fmt.Sprintf("{cert_file: %q, key_file: %q}", text, cert.KeyFile),
			"holds no certificate":     fmt.Sprintf("{ca_file: %q}", text),
			"not a regular file":       fmt.Sprintf("{ca_file: %q}", filepath.Dir(text)),
			"no such file":             fmt.Sprintf("{ca_file: %q}", text+"s"),
			"needs key_file beside it": fmt.Sprintf("{cert_file: %q}", cert.CertFile),
		} {
			_, err := load("%s", settings)
			var all config.Errors
			if !errors.As(err, &all) || len(all) != 1 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %s: %v, want %q", section, settings, err, want)
			} else if all[0].Line != 2 || all[0].Column < 10 || !strings.HasSuffix(all[0].Path, "_file") {
				t.Errorf("%s: %+v: want the file's own place", section, all[0])
			}
		}
	}
}

// A lock in the store's database connects as the store does.
func TestTLSOfTheStoreIsThatOfItsLock(t *testing.T) {
	c := load(t, `store: {driver: mysql, dsn: "u:p@tcp(db:3306)/a", tls: {server_name: db}}`)
	if c.Lock.MySQL.TLS == nil || c.Lock.MySQL.TLS.ServerName != "db" {
		t.Errorf("%+v", c.Lock.MySQL.TLS)
	}
}

func TestAuthFile(t *testing.T) {
	for content, want := range map[string]string{
		"alice:correct horse\n":        "alice:correct horse",
		"digest alice:secret:x\r\n":    "alice:secret:x",
		"hunter2":                      "",
		":hunter2":                     "",
		"hunter2:":                     "",
		"alice:hunter2\nbob:hunter2\n": "",
	} {
		path := filepath.Join(t.TempDir(), "auth")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.LoadBytes("lockstep.yaml", fmt.Appendf(nil, "version: 1\nlock: {driver: zookeeper, zookeeper: {auth_file: %q}}\n", path), config.Options{})
		switch {
		case want == "" && (err == nil || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%q: %v, want an error without the content", content, err)
		case want != "" && err != nil:
			t.Errorf("%q: %v", content, err)
		case want != "" && c.Lock.ZooKeeper.Auth != want:
			t.Errorf("%q: %q", content, c.Lock.ZooKeeper.Auth)
		}
	}
}
