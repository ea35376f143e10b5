package cluster

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The accounts that docs/backends.md shows, and no more, are enough: a replica migrates with one, and
// runs jobs with the other, everything over TLS with certificates on both sides.
func TestSecured(t *testing.T) {
	t.Parallel()
	a := servers.NewAuthority(t)
	mine := a.Client("replica")
	db := servers.NewSecureMySQL(t, servers.Secure{Authority: a})
	lock := servers.NewSecureRedis(t, servers.Secure{Authority: a, ClientCerts: true, Password: "of-the-admin"})
	db.Exec(statements(t)...)
	limit(t, lock.Addr, a.TLS(mine))

	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trust := fmt.Sprintf("{ca_file: %q}", a.CAFile)
	shown := fmt.Sprintf("{ca_file: %q, cert_file: %q, key_file: %q}", a.CAFile, mine.CertFile, mine.KeyFile)
	dsn := func(user, password string) string {
		return fmt.Sprintf("%q", file(user, db.DSNAs(user, password, "lockstep")))
	}
	admin := file("admin.yaml", fmt.Sprintf("version: 1\nstore: {driver: mysql, dsn_file: %s, tls: %s}\njobs: {a: {command: [echo]}}\n",
		dsn("lockstep_admin", "choose-one"), trust))
	config := file("lockstep.yaml", fmt.Sprintf(`version: 1
store: {driver: mysql, migrate: manual, dsn_file: %s, tls: %s}
lock:
  driver: redis
  ttl: 3s
  redis: {addrs: [%q], username: lockstep, password_file: %q, tls: %s}
pools: {work: {command: [/bin/true]}}
jobs:
  tick: {schedule: "* * * * * *", command: [/bin/true]}
`, dsn("lockstep", "choose-another"), shown, lock.Addr, file("redis", "choose-one\n"), shown))

	path := program.Build(t, scheduler)
	if out, err := exec.Command(path, "migrate", "up", "-c", admin).CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	r := startReplica(t, config, "secured")
	r.enqueue(t, "work", 20)
	program.Within(t, 30*time.Second, "jobs and tasks run", func() bool {
		var triggers struct {
			Items []struct{ Outcome, Result string }
		}
		if err := r.call("GET", "/api/v1/triggers?job=tick&outcome=ran", nil, &triggers); err != nil {
			t.Fatal(err)
		}
		return len(triggers.Items) >= 3 && triggers.Items[0].Result == "succeeded" && len(r.tasks(t, "work", "succeeded")) == 20
	})
	program.Within(t, 30*time.Second, "the stripes are held", func() bool { // a Redis that just started waits for a ttl
		var held struct{ Items []any }
		return r.call("GET", "/api/v1/locks", nil, &held) == nil && len(held.Items) > 0
	})
	r.Drain(t, 30*time.Second)
	log := r.Log()
	if secret := regexp.MustCompile(`choose-(one|another)`).FindString(log); secret != "" {
		t.Errorf("the log shows %q:\n%s", secret, log)
	}
	if missing := regexp.MustCompile(`"level":"ERROR"|NOPERM|NOAUTH|denied`).FindString(log); missing != "" {
		t.Errorf("%s: something was missing:\n%s", missing, log)
	}
}

func backends(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// statements are those of the page's first block of SQL.
func statements(t *testing.T) (all []string) {
	t.Helper()
	_, block, _ := strings.Cut(backends(t), "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	for statement := range strings.SplitSeq(strings.TrimSpace(block), ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, statement)
		}
	}
	if len(all) != 5 {
		t.Fatalf("statements: %q", all)
	}
	return all
}

// limit makes the user of Redis that the page shows.
func limit(t *testing.T, addr string, settings *tls.Config) {
	t.Helper()
	_, line, found := strings.Cut(backends(t), "\nACL SETUSER ")
	line, _, _ = strings.Cut(line, "\n")
	args := []any{"ACL", "SETUSER"}
	for word := range strings.FieldsSeq(line) {
		args = append(args, word)
	}
	admin := redis.NewClient(&redis.Options{Addr: addr, Password: "of-the-admin", TLSConfig: settings})
	defer admin.Close()
	if err := admin.Do(t.Context(), args...).Err(); err != nil || !found {
		t.Fatal(err)
	}
}
