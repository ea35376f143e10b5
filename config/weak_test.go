package config_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
)

// Options weaker than a verified certificate need insecure, in the DSN of the store and of a lock.
func TestWeakDSNs(t *testing.T) {
	sections := map[string]string{
		"store":      `store: {driver: mysql, dsn: "u:CANARY@tcp(db:3306)/a?%s", tls: %s}`,
		"lock.mysql": `lock: {driver: mysql, mysql: {dsn: "u:CANARY@tcp(db:3306)/a?%s", tls: %s}}`,
	}
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte("u:CANARY@tcp(db:3306)/a?tls=skip-verify"), 0o600); err != nil {
		t.Fatal(err)
	}
	for section, form := range sections {
		for _, c := range []struct {
			options, tls string
			refused      []string // none: it is fine
			weak         []string
		}{
			{"", "{}", nil, nil},
			{"tls=true", "{}", nil, nil},
			{"tls=false", "{}", nil, nil},
			{"parseTime=true", "{enabled: true}", nil, nil},
			{"tls=true&allowCleartextPasswords=true", "{}", nil, nil},
			{"allowCleartextPasswords=true", "{enabled: true}", nil, nil},
			{"tls=skip-verify", "{}", []string{"tls=skip-verify: the server's certificate is not verified"}, nil},
			{"tls=Skip-Verify", "{}", []string{"tls=skip-verify"}, nil},
			{"tls=preferred", "{}", []string{"tls=preferred: no certificate"}, nil},
			{"allowCleartextPasswords=true", "{}", []string{"allowCleartextPasswords=true: any server"}, nil},
			{"allowCleartextPasswords=1&tls=skip-verify", "{}", []string{"allowCleartextPasswords=true", "tls=skip-verify"}, nil},
			{"allowFallbackToPlaintext=true", "{enabled: true}", []string{"allowFallbackToPlaintext=true: a server without TLS"}, nil},
			{"allowFallbackToPlaintext=true&tls=true&allowCleartextPasswords=true", "{}", []string{"allowFallbackToPlaintext=true", "allowCleartextPasswords=true"}, nil},
			{"allowOldPasswords=true", "{enabled: true}", []string{"allowOldPasswords=true: the password can be computed"}, nil},
			{"allowAllFiles=true", "{enabled: true}", []string{"allowAllFiles=true: the server could read any file"}, nil},
			{"allowAllFiles=true", "{insecure: true}", []string{"allowAllFiles=true"}, nil},
			{"tls=skip-verify", "{enabled: true, insecure: true}", []string{"stands beside tls= in the DSN"}, nil},

			{"tls=skip-verify", "{insecure: true}", nil, []string{"tls=skip-verify: "}},
			{"tls=preferred", "{insecure: true}", nil, []string{"tls=preferred: "}},
			{"allowCleartextPasswords=true", "{enabled: false, insecure: true}", nil, []string{"allowCleartextPasswords=true: "}},
			{"allowCleartextPasswords=true", "{insecure: true}", nil, []string{"the server's certificate is not verified (tls.insecure)", "allowCleartextPasswords=true: "}},
			{"", "{insecure: true}", nil, []string{"the server's certificate is not verified (tls.insecure)"}},
			{"", "{enabled: false, insecure: true}", nil, nil},
		} {
			text := fmt.Sprintf(form, c.options, c.tls)
			if c.refused != nil {
				why := refused(t, text)
				for _, want := range c.refused {
					if !strings.Contains(why, want) || !strings.Contains(why, section) || strings.Contains(why, "CANARY") {
						t.Errorf("%s\n%s\nwant %s", text, why, want)
					}
				}
				continue
			}
			loaded := load(t, text)
			weak, where := loaded.Weak(), strings.TrimSuffix(section, ".mysql")+": "
			if len(weak) != len(c.weak) || slices.ContainsFunc(c.weak, func(w string) bool {
				return !slices.ContainsFunc(weak, func(have string) bool { return strings.HasPrefix(have, where+w) })
			}) {
				t.Errorf("%s: weak are %q, want %q", text, weak, c.weak)
			}
			settings := map[string]*tls.Config{"store": loaded.Store.TLS, "lock.mysql": loaded.Lock.MySQL.TLS}[section]
			if onItsOwn := c.tls == "{insecure: true}" && !strings.Contains(c.options, "tls="); onItsOwn != (settings != nil && settings.InsecureSkipVerify) {
				t.Errorf("%s: TLS is %+v", text, settings)
			}
		}
	}
	if why := refused(t, fmt.Sprintf("store: {driver: mysql, dsn_file: %q}", file)); !strings.Contains(why, "store.dsn_file: has tls=skip-verify") || strings.Contains(why, "CANARY") {
		t.Error(why)
	}
	if c := load(t, fmt.Sprintf("store: {driver: mysql, dsn_file: %q, tls: {insecure: true}}", file)); len(c.Weak()) != 1 { // the lock is in it
		t.Errorf("%q", c.Weak())
	}
}

// Locks without access control need insecure.
func TestZooKeeperWithoutALogin(t *testing.T) {
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "login"), filepath.Join(dir, "empty")
	if err := errors.Join(os.WriteFile(file, []byte("u:CANARY"), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	login := fmt.Sprintf(", auth_file: %q", file)
	for _, c := range []struct {
		servers, more string
		refused       string // part of the error
		weak, warned  bool
	}{
		{`"127.0.0.1:2181"`, "", "", false, false},
		{`"localhost:2181", "[::1]:2182", "127.9.9.9:2183"`, "", "", false, false},
		{`"zk.internal:2181"`, login, "", false, false},
		{`"zk.internal:2181"`, login + ", tls: {enabled: true}", "", false, false},
		{`"zk.internal:2181"`, "", "4:14: lock.zookeeper.servers: without auth_file, every client that reaches zk.internal:2181 can", false, false},
		{`"127.0.0.1:2181", "10.0.0.1:2181"`, "", "every client that reaches 10.0.0.1:2181 can", false, false},
		{`"127.0.0.1:2181", "10.0.0.1:2181"`, ", insecure: false", "write lock.zookeeper.insecure: true", false, false},
		{`"zk.internal:2181"`, `, auth_file: ""`, "without auth_file", false, false},
		{`"zk.internal:2181"`, ", tls: {enabled: true}", "without auth_file", false, false},
		{`"zk.internal:2181"`, ", tls: {insecure: true}", "without auth_file", false, false},
		{`"zk.internal:2181"`, fmt.Sprintf(", auth_file: %q", empty), "lock.zookeeper.auth_file: ", false, false},
		{`"zk.internal:2181"`, ", insecure: true", "", true, false},
		{`"127.0.0.1:2181"`, ", insecure: true", "", false, false},
		{`"zk.internal:2181"`, login + ", insecure: true", "", false, true},
	} {
		text := fmt.Sprintf("lock:\n  zookeeper:\n    servers: [%s]\n    %s\n  driver: zookeeper", c.servers, strings.ReplaceAll(strings.TrimPrefix(c.more, ", "), ", ", "\n    "))
		if c.refused != "" {
			if why := refused(t, text); !strings.Contains(why, c.refused) || strings.Count(why, "lockstep.yaml:") > 1 {
				t.Errorf("%s\n%s\nwant %s", text, why, c.refused)
			}
			continue
		}
		loaded := load(t, text)
		weak := slices.ContainsFunc(loaded.Weak(), func(w string) bool {
			return strings.HasPrefix(w, "lock: every client that reaches the servers can take, free and change the locks")
		})
		warned := slices.ContainsFunc(loaded.Warnings, func(w config.Error) bool {
			return strings.Contains(w.Error(), "lock.zookeeper.insecure: has no effect")
		})
		if weak != c.weak || warned != c.warned {
			t.Errorf("%s\nweak are %q, warnings %v", text, loaded.Weak(), loaded.Warnings)
		}
	}
	if c := load(t, `lock: {driver: redis, redis: {addrs: ["127.0.0.1:6379"]}, zookeeper: {servers: ["zk.internal:2181"]}}`); c.Weak() != nil {
		t.Errorf("of what is not used: %q", c.Weak())
	}
}

// The other backends have the same key; a password in plain text to another machine is a warning.
func TestWeakLockServices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("u:CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	for driver, form := range map[string]string{
		"redis":     `lock: {driver: redis, redis: {addrs: ["%s:6379"], password_file: %q, tls: %s}}`,
		"zookeeper": `lock: {driver: zookeeper, zookeeper: {servers: ["%s:2181"], auth_file: %q, tls: %s}}`,
	} {
		for _, c := range []struct {
			host, tls string
			warned    bool
			weak      int
		}{
			{"127.0.0.1", "{}", false, 0},
			{"localhost", "{}", false, 0},
			{"locks.internal", "{}", true, 0},
			{"10.0.0.1", "{}", true, 0},
			{"locks.internal", "{enabled: true}", false, 0},
			{"locks.internal", "{insecure: true}", false, 1},
			{"locks.internal", "{enabled: false, insecure: true}", false, 0},
		} {
			text := fmt.Sprintf(form, c.host, file, c.tls)
			loaded := load(t, text)
			warned := slices.ContainsFunc(loaded.Warnings, func(w config.Error) bool { return strings.Contains(w.Error(), "in plain text") })
			if warned != c.warned || len(loaded.Weak()) != c.weak {
				t.Errorf("%s %s: warnings %v, weak %q", driver, text, loaded.Warnings, loaded.Weak())
			}
		}
	}
}
