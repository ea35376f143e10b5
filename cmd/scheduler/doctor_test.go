package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// runDoctor returns doctor's findings as "level check: text: advice", and the exit code.
func runDoctor(t *testing.T, dir, text string) ([]string, int) {
	t.Helper()
	if !strings.Contains(text, "server:") { // others may listen at the default
		text += "\nserver: {listen: \"127.0.0.1:0\"}"
	}
	path := filepath.Join(dir, "lockstep.yaml")
	if err := os.WriteFile(path, []byte("version: 1\njobs: {a: {command: [echo]}}\n"+text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call(t, nil, "doctor", "-c", path, "-o", "json")
	var findings []finding
	if err := json.Unmarshal([]byte(got.stdout), &findings); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	problems := 0
	all := make([]string, len(findings))
	for i, f := range findings {
		all[i] = f.Level + " " + f.Check + ": " + f.Text
		if f.Advice != "" {
			all[i] += ": " + f.Advice
		}
		if f.Level == levelProblem {
			problems++
		}
	}
	if (problems > 0) != (got.code == exitFailed) || problems > 0 && !strings.Contains(got.stderr, count(problems, "problem")) {
		t.Errorf("%d problems, exit code %d: %s", problems, got.code, got.stderr)
	}
	people := call(t, nil, "doctor", "-c", path)
	young := strings.Contains(got.stdout+people.stdout, "recovering") // a server that has just started, and grants by now
	if lines := strings.Count(people.stdout, "\n"); people.code != got.code || lines != len(findings)+1 && !young {
		t.Errorf("for people: exit code %d, %d lines for %d findings:\n%s", people.code, lines, len(findings), people.stdout)
	}
	return all, got.code
}

func wantFinding(t *testing.T, all []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(all, func(f string) bool { return strings.Contains(f, w) }) {
			t.Errorf("%q is not among\n%s", w, strings.Join(all, "\n"))
		}
	}
}

func migrated(t *testing.T, driver, dsn string) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Dialect(driver), dsn, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st
}

// unknownAccount is a DSN with an account that the server does not have.
func unknownAccount(t *testing.T) *mysql.Config {
	t.Helper()
	account, err := mysql.ParseDSN(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	account.User, account.Passwd = "stranger", "wrong"
	return account
}

// newAccount makes an account without rights in the same database.
func newAccount(t *testing.T, root string) *mysql.Config {
	t.Helper()
	account, err := mysql.ParseDSN(root)
	if err != nil {
		t.Fatal(err)
	}
	account.User, account.Passwd = account.DBName, "secret"
	change(t, "mysql", root, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY 'secret'", account.User))
	t.Cleanup(func() { change(t, "mysql", root, fmt.Sprintf("DROP USER %s@'%%'", account.User)) })
	return account
}

// change executes SQL outside the store.
func change(t *testing.T, driver, dsn, statement string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	t.Run("nothing is there yet", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		all, code := runDoctor(t, dir, "")
		wantFinding(t, all, "ok configuration: ", "lockstep.yaml has 1 job and 0 pools", "warning store: "+dir+"/lockstep.db does not exist yet")
		if _, err := os.Stat(filepath.Join(dir, "lockstep.db")); err == nil || code != 0 {
			t.Errorf("exit code %d; the doctor has made the file: %v", code, err == nil)
		}
		manual, code := runDoctor(t, dir, "store: {migrate: manual}")
		wantFinding(t, manual, "problem store: "+dir+"/lockstep.db does not exist yet")
		if code != 1 {
			t.Errorf("exit code %d: %v", code, manual)
		}
		if exechandler.CanWarden() {
			wantFinding(t, all, "ok commands: commands end when their replica")
		} else {
			wantFinding(t, all, "warning commands: on this system commands go on")
		}
	})
	t.Run("commands that could not be started", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		more := `jobs:
  b: {command: [echo], working_dir: ` + dir + `/none}
  c: {command: [no-such-program-here], runs_on: {zone: b}}
  d: {shell: no-such-program-here, notify: {on: [failed], command: [./none]}}
pools:
  p: {command: [` + dir + `], kinds: {k: {command: [no-such-program-here]}, l: {command: [echo]}}}
  q: {http: {url: "http://127.0.0.1:1"}, notify: {on: [failed], command: [no-such-program-here]}}
`
		if err := os.WriteFile(filepath.Join(dir, "more.yaml"), []byte(more), 0o600); err != nil {
			t.Fatal(err)
		}
		all, code := runDoctor(t, dir, "include: [more.yaml]\nreplica: {labels: {zone: a}}")
		wantFinding(t, all, "warning commands: job b: working directory: stat "+dir+"/none: no such file or directory: correct the configuration",
			`warning commands: notify of job d: command "./none" not found`, "warning commands: pool p: cannot start "+dir,
			`warning commands: kind k of pool p: command "no-such-program-here" not found in PATH`, `warning commands: notify of pool q: command "no-such-program-here" not found in PATH`)
		said := 0
		for _, f := range all {
			if strings.HasPrefix(f, "warning commands: ") {
				said++
			}
		}
		if said != 5 || code != 0 {
			t.Errorf("exit code %d, %d commands that could not be started: %q", code, said, all)
		}
	})
	t.Run("a lock service before there is a file", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"redis, redis: {addrs: [\"127.0.0.1:1\"]}":                                 "problem lock: lock service redis 127.0.0.1:1",
			"zookeeper, zookeeper: {servers: [\"127.0.0.1:1\"]}":                       "problem lock: lock service zookeeper 127.0.0.1:1/lockstep: ",
			fmt.Sprintf("redis, redis: {addrs: [%q]}", servers.Redis(t)):               "ok lock: redis ",
			fmt.Sprintf("zookeeper, zookeeper: {servers: [%q]}", servers.ZooKeeper(t)): "ok lock: zookeeper ",
		} {
			all, code := runDoctor(t, t.TempDir(), "lock: {driver: "+text+"}")
			wantFinding(t, all, want)
			if (code != 0) != strings.HasPrefix(want, "problem") {
				t.Errorf("exit code %d: %v", code, all)
			}
		}
	})
	t.Run("no file can be made there", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		all, code := runDoctor(t, dir, "store: {dsn: none/a.db}")
		wantFinding(t, all, "problem store: ", "its folder: ", dir+"/none")
		if code != 1 {
			t.Errorf("exit code %d: %v", code, all)
		}
	})
	t.Run("the address and the account have no part in it", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "text"), []byte("this is certainly not a database, and long enough to look like one"), 0o600); err != nil {
			t.Fatal(err)
		}
		full := servers.NewRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").Addr
		const name = "name: x\nlock: {ttl: 2s, driver: "
		migrated(t, "sqlite", filepath.Join(dir, "lockstep.db"))
		for text, blamed := range map[string]bool{
			"store: {dsn: .}":    false,
			"store: {dsn: text}": false,
			name + fmt.Sprintf("redis, redis: {addrs: [%q]}}", full):                      false,
			name + "redis, redis: {addrs: [\"127.0.0.1:1\"]}}":                            true,
			name + "zookeeper, zookeeper: {servers: [\"127.0.0.1:1\"]}}":                  true,
			"store: {driver: mysql, dsn: \"u:p@tcp(127.0.0.1:1)/db\"}":                    true,
			fmt.Sprintf("store: {driver: mysql, dsn: %q}", unknownAccount(t).FormatDSN()): false,
		} {
			all, code := runDoctor(t, dir, text)
			if strings.Contains(text, "stranger") {
				wantFinding(t, all, ": "+correctAccount)
			}
			if strings.Contains(strings.Join(all, "\n"), connect) != blamed || code != 1 {
				t.Errorf("%s: exit code %d\n%s", text, code, strings.Join(all, "\n"))
			}
		}
	})
	t.Run("the address is not free", func(t *testing.T) {
		t.Parallel()
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		for address, want := range map[string]string{
			taken.Addr().String(): "warning server: " + taken.Addr().String() + " is in use",
			"192.0.2.1:0":         "problem server: listen tcp 192.0.2.1:0",
		} {
			all, code := runDoctor(t, t.TempDir(), fmt.Sprintf("server: {listen: %q, insecure: true}", address))
			wantFinding(t, all, want)
			if (code != 0) != strings.HasPrefix(want, "problem") {
				t.Errorf("exit code %d: %v", code, all)
			}
		}
	})
	t.Run("there are no tables yet", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "lockstep.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", fmt.Sprintf("store: {driver: mysql, dsn: %q}", servers.MySQL(t))} {
			all, code := runDoctor(t, dir, text)
			wantFinding(t, all, "warning schema: 0 of ", "ok lock: the store's own database")
			if code != 0 {
				t.Errorf("exit code %d: %v", code, all)
			}
		}
	})
	t.Run("all is well", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		st := migrated(t, "sqlite", filepath.Join(dir, "lockstep.db"))
		member := ledger.Member{Replica: "one", LockService: scheduler.Fingerprint(scheduler.StoreLocks), TTL: time.Hour}
		if _, err := st.Sides().Replica.Join(t.Context(), member); err != nil {
			t.Fatal(err)
		}
		all, code := runDoctor(t, dir, "")
		wantFinding(t, all, "ok store: sqlite answers after ", "ok clock: ", "ok schema: ", "ok lock: the store's own database", "ok replicas: 1 live replica on")
		if code != 0 || strings.Contains(strings.Join(all, "\n"), "warning") {
			t.Errorf("exit code %d: %v", code, all)
		}
	})
	t.Run("a quorum", func(t *testing.T) {
		t.Parallel()
		one, two, three := servers.NewRedis(t), servers.NewRedis(t), servers.NewRedis(t)
		text := fmt.Sprintf("lock: {driver: quorum, quorum: {nodes: [{addrs: [%q]}, {addrs: [%q]}, {addrs: [%q]}]}}", one.Addr, two.Addr, three.Addr)
		all, _ := runDoctor(t, t.TempDir(), text)
		wantFinding(t, all, "ok lock: quorum of ")
		dir := t.TempDir()
		migrated(t, "sqlite", filepath.Join(dir, "lockstep.db"))
		all, code := runDoctor(t, dir, text)
		wantFinding(t, all, "ok lock: quorum of ", "(no FIFO)", "EarlyLoss)", "A lock is held on 2 of 3 servers")
		if code != 0 {
			t.Errorf("exit code %d: %v", code, all)
		}
		two.Kill()
		three.Kill()
		all, _ = runDoctor(t, dir, text)
		wantFinding(t, all, "problem lock: lock service quorum of ")
	})
	t.Run("redis beside mysql", func(t *testing.T) {
		t.Parallel()
		dsn, redis := servers.MySQL(t), servers.Redis(t)
		text := func(migrate, redis string) string {
			return fmt.Sprintf("store: {driver: mysql, dsn: %q, migrate: %s}\nlock: {driver: redis, redis: {addrs: [%q]}}", dsn, migrate, redis)
		}
		all, _ := runDoctor(t, t.TempDir(), text("auto", redis))
		wantFinding(t, all, "ok store: mysql answers", "warning schema: 0 of ", "ok lock: redis "+redis+" answers after ")
		all, _ = runDoctor(t, t.TempDir(), text("manual", redis))
		wantFinding(t, all, "problem schema: ", "there are no tables with prefix lockstep_")
		st := migrated(t, "mysql", dsn)
		all, code := runDoctor(t, t.TempDir(), text("manual", redis))
		wantFinding(t, all, "ok schema: ", "ok lock: redis "+redis, "FIFO)", "EarlyLoss)", "(TrustMargin)")
		if code != 0 {
			t.Errorf("exit code %d: %v", code, all)
		}

		began := time.Now()
		all, _ = runDoctor(t, t.TempDir(), text("manual", "127.0.0.1:1"))
		if took := time.Since(began); took > 25*time.Second { // twice
			t.Errorf("it took %v", took)
		}
		wantFinding(t, all, "problem lock: lock service redis 127.0.0.1:1")
		if _, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "other", LockService: "elsewhere", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		all, _ = runDoctor(t, t.TempDir(), text("manual", redis))
		wantFinding(t, all, "problem replicas: other uses another lock service: elsewhere", "ok replicas: 1 live replica on")
	})
	t.Run("a table is not there, or not ours to read", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		migrated(t, "sqlite", filepath.Join(dir, "lockstep.db"))
		change(t, "sqlite", filepath.Join(dir, "lockstep.db"), "DROP TABLE lockstep_sessions")
		all, code := runDoctor(t, dir, "")
		wantFinding(t, all, "ok schema: ", "problem replicas: store: peers: ")
		if code != 1 {
			t.Errorf("exit code %d", code)
		}

		root := servers.MySQL(t)
		migrated(t, "mysql", root)
		account := newAccount(t, root)
		for _, table := range []string{"migrations", "meta"} {
			change(t, "mysql", root, fmt.Sprintf("GRANT SELECT ON %s.lockstep_%s TO %s@'%%'", account.DBName, table, account.User))
		}
		all, code = runDoctor(t, t.TempDir(), fmt.Sprintf("store: {driver: mysql, dsn: %q, migrate: manual}", account.FormatDSN()))
		wantFinding(t, all, "ok schema: ", "problem replicas: store: peers: ", "denied")
		if code != 1 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("an account that may only read", func(t *testing.T) {
		t.Parallel()
		root := servers.MySQL(t)
		account := newAccount(t, root)
		change(t, "mysql", root, fmt.Sprintf("GRANT SELECT ON %s.* TO %s@'%%'", account.DBName, account.User))
		text := fmt.Sprintf("store: {driver: mysql, dsn: %q}", account.FormatDSN())
		all, code := runDoctor(t, t.TempDir(), text)
		wantFinding(t, all, "warning schema: 0 of ", "CREATE command denied")
		if code != 1 {
			t.Errorf("exit code %d: %v", code, all)
		}
		migrated(t, "mysql", root)
		all, code = runDoctor(t, t.TempDir(), text)
		wantFinding(t, all, "ok schema: ", "INSERT command denied", "grant the account SELECT, INSERT, UPDATE and DELETE")
		if code != 1 || strings.Contains(strings.Join(all, "\n"), connect) {
			t.Errorf("exit code %d: %v", code, all)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		all, code := runDoctor(t, dir, "store: {driver: mysql, dsn: \"u:s3cret@tcp(127.0.0.1:1)/db\"}\nserver: {auth: {tokens_file: none.yaml}}")
		wantFinding(t, all, "problem store: ", "127.0.0.1:1", "problem server: "+dir+"/none.yaml is not on this machine")
		if text := strings.Join(all, "\n"); code != 1 || strings.Contains(text, "s3cret") {
			t.Errorf("exit code %d: %s", code, text)
		}
	})
	t.Run("a configuration that cannot be used", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "lockstep.yaml")
		if err := os.WriteFile(path, []byte("version: 1\njbos: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := call(t, nil, "doctor", "-c", path); got.code != exitUsage || !strings.Contains(got.stderr, "lockstep.yaml:2:1") {
			t.Errorf("%+v", got)
		}
	})
}
