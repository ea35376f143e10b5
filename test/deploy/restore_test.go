//go:build linux

package deploy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const restored = `version: 1
replica: {session_ttl: 3s}
store: {driver: %s, dsn: %q}
pools:
  held: {kinds: {odd: {command: ["true"]}}}
jobs:
  second: {schedule: "* * * * * *", command: ["true"], catch_up: {policy: latest, grace: 1s}}
`

// A backup is taken while a replica writes. Replicas that start on it later go on at its time: what
// was due since is caught up as the configuration says, each due time once.
func TestRestoreOfABackup(t *testing.T) {
	t.Parallel()
	servers.Need(t, "sqlite3", "mysqldump", "mysql")
	for driver, dsn := range map[string]string{"sqlite": "lockstep.db", "mysql": servers.MySQL(t)} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := serving(t, dir, driver, dsn)
			c := plain(t, r)
			program.Within(t, 20*time.Second, "it runs", func() bool { return len(ran(t, c)) >= 3 })
			backup := filepath.Join(dir, "backup.sql")
			if driver == "sqlite" {
				backup = filepath.Join(dir, "backup.db")
			}
			script(t, dir, "umask 022\n"+backupOf(t, driver, dsn))
			info, err := os.Stat(backup)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("others can use the backup: %v", info.Mode())
			}
			taken := time.Now()
			program.Within(t, 20*time.Second, "it runs on", func() bool { return len(ran(t, c)) >= 8 })
			r.Drain(t, 20*time.Second)

			if driver == "sqlite" {
				dsn = backup
			} else {
				dsn = servers.MySQL(t)
				script(t, dir, "mysql "+flags(t, dsn)+" < backup.sql")
			}
			lift := "sqlite3 " + dsn
			if driver == "mysql" {
				lift = "mysql " + flags(t, dsn)
			}
			script(t, dir, lift+" <<'END'\n"+sqlOf(t)+"END")
			r = serving(t, dir, driver, dsn)
			c = plain(t, r)
			began := time.Now().UTC().Add(time.Second)
			program.Within(t, 20*time.Second, "it runs again", func() bool {
				rows := ran(t, c)
				return len(rows) > 0 && rows[0].At.After(began)
			})
			rows := everySecond(t, c)
			if last, err := c.Task(t.Context(), ran(t, c)[0].TaskID); err != nil || last.Task.Token <= 1000000 {
				t.Errorf("fencing tokens go on at %d, %v", last.Task.Token, err)
			}
			passed := 0
			for _, row := range rows {
				if row.At.Before(taken) || row.At.After(began) {
					continue
				}
				passed += max(row.Count, 1)
				if row.Outcome == jobs.Ran && row.Cause != jobs.CauseCatchUp && row.At.Before(began.Add(-3*time.Second)) {
					t.Errorf("%v ran as if it had been in time", row.At)
				}
			}
			if passed < 4 {
				t.Errorf("%d due times lie between the backup and the restore: %+v", passed, rows)
			}
		})
	}
}

// backupOf is the backup command of a store on the page of operations.
func backupOf(t *testing.T, driver, dsn string) string {
	t.Helper()
	m := regexp.MustCompile("(?m)^(umask .*\n)(sqlite3 .*\n)mysqldump( .*) lockstep( .*\n)").FindStringSubmatch(readFile(t, operations))
	if m == nil {
		t.Fatal("the page has no backup")
	}
	if driver == "sqlite" {
		return m[1] + m[2]
	}
	return m[1] + "mysqldump " + flags(t, dsn) + m[3] + m[4]
}

// sqlOf is the SQL to run before the start, on the page of operations.
func sqlOf(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(readFile(t, operations))
	if m == nil {
		t.Fatal("the page has no SQL")
	}
	return m[1]
}

// The content of a SQLite file is the same in MySQL: jobs, ledger, tasks and payloads.
func TestMoveToMySQL(t *testing.T) {
	t.Parallel()
	servers.Need(t, "sqlite3", "mysql")
	dir := t.TempDir()
	r := serving(t, dir, "sqlite", "lockstep.db")
	c := plain(t, r)
	if _, err := c.PausePool(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	payload := "it's \\ \"quoted\"\n\tüñí \u2028 😀"
	task, err := c.Enqueue(t.Context(), jobs.NewTask{Pool: "held", Kind: "odd", Payload: payload, IdempotencyKey: `a'b\c`})
	if err != nil {
		t.Fatal(err)
	}
	program.Within(t, 20*time.Second, "it runs", func() bool { return len(ran(t, c)) >= 3 })
	before, err := c.Task(t.Context(), task[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	move := "'" + absolute(t, "../../deploy/move/sqlite-to-mysql.sh") + "' lockstep.db > moved.sql"
	r.Drain(t, 20*time.Second)
	script(t, dir, move)

	dsn := servers.MySQL(t)
	file := configure(t, dir, "mysql", dsn)
	script(t, dir, program.Build(t, "../../cmd/scheduler", static)+" migrate up -c "+file)
	script(t, dir, "mysql "+flags(t, dsn)+" < moved.sql")
	moved := serving(t, dir, "mysql", dsn)
	c = plain(t, moved)
	after, err := c.Task(t.Context(), task[0].ID)
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("the task is otherwise: %v\n%s", err, diff)
	}
	again, err := c.Enqueue(t.Context(), jobs.NewTask{Pool: "held", Kind: "odd", Payload: payload, IdempotencyKey: `a'b\c`})
	if err != nil || !again[0].Existed || again[0].ID != task[0].ID {
		t.Errorf("its key makes another task: %+v %v", again, err)
	}
	began := time.Now().UTC().Add(time.Second)
	program.Within(t, 20*time.Second, "it runs again", func() bool {
		rows := ran(t, c)
		return len(rows) > 0 && rows[0].At.After(began)
	})
	everySecond(t, c)
	if still, err := c.Task(t.Context(), task[0].ID); err != nil || still.Task.State != jobs.StatePending {
		t.Errorf("the pause is forgotten: the task is %s, %v", still.Task.State, err)
	}
	if _, err := c.ResumePool(t.Context(), "held"); err != nil {
		t.Fatal(err)
	}
	if done := ended(t, c, task[0].ID); done.State != jobs.StateSucceeded {
		t.Errorf("the task is %s: %s", done.State, done.Error)
	}
}

func configure(t *testing.T, dir, driver, dsn string) string {
	t.Helper()
	file := filepath.Join(dir, driver+".yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, restored, driver, dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func serving(t *testing.T, dir, driver, dsn string) *program.Process {
	t.Helper()
	cmd := exec.Command(program.Build(t, "../../cmd/scheduler", static), "serve", "-c", configure(t, dir, driver, dsn), "--listen", "127.0.0.1:0")
	cmd.Dir = dir
	return program.Start(t, cmd)
}

func plain(t *testing.T, r *program.Process) *client.Client {
	t.Helper()
	c, err := client.New(r.URL(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ran is the part of the ledger that ran, latest first.
func ran(t *testing.T, c *client.Client) []jobs.Trigger {
	t.Helper()
	list, err := c.Triggers(t.Context(), wire.TriggerFilter{Job: "second", Outcome: jobs.Ran, Page: wire.Page{Limit: 500}})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// everySecond returns the ledger, latest first, and checks that it covers each second once.
func everySecond(t *testing.T, c *client.Client) []jobs.Trigger {
	t.Helper()
	list, err := c.Triggers(t.Context(), wire.TriggerFilter{Job: "second", Page: wire.Page{Limit: 500}})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range list.Items[1:] {
		end := row.At
		if !row.Until.IsZero() {
			end = row.Until
		}
		if next := list.Items[i].At; next.Sub(end) != time.Second {
			t.Errorf("after the row until %v comes the one for %v", end, next)
		}
	}
	return list.Items
}

// flags are those of MySQL's own programs for a database.
func flags(t *testing.T, dsn string) string {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(c.Addr, ":")
	return fmt.Sprintf("--protocol=tcp --host=%s --port=%s --user=%s --password='%s' %s", host, port, c.User, c.Passwd, c.DBName)
}

func script(t *testing.T, dir, text string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, bytes.TrimSpace(out))
	}
}
