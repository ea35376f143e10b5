package cluster

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"database/sql"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// TestStarting: while a store is slow with the first replica's definitions, nothing is reported as missing: an enqueue
// is refused as starting, a command repeats it, and enqueues once.
func TestStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "lockstep.yaml")
	err := os.WriteFile(config, []byte("version: 1\nstore: {dsn: lockstep.db, migrate: manual}\npools:\n  mail: {shell: cat}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	binary := program.Build(t, scheduler)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Dir = dir
		return cmd
	}
	if out, err := command("migrate", "up", "-c", config).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "lockstep.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	busy, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if _, err := busy.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}

	p := program.Start(t, command("serve", "-c", config, "--listen", "127.0.0.1:0"))
	url := regexp.MustCompile(`"url":"(http://[^"]*)"`)
	program.Within(t, 20*time.Second, "the port is open", func() bool { return url.MatchString(p.Log()) })
	address := url.FindStringSubmatch(p.Log())[1]
	answer, err := http.Post(address+"/api/v1/pools/mail/tasks", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var body struct{ Error struct{ Code string } }
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || answer.StatusCode != http.StatusServiceUnavailable ||
		answer.Header.Get("Retry-After") != "1" || body.Error.Code != "starting" {
		t.Errorf("%s %v %+v, %v", answer.Status, answer.Header, body, err)
	}
	cli := program.Start(t, command("tasks", "enqueue", "mail", "--server", address))
	if cli.Ended(time.Second) {
		t.Errorf("the command did not wait: %s", cli.Log())
	}
	if _, err := busy.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if code := cli.Exit(t, 30*time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, cli.Log())
	}
	var tasks int
	if err := db.QueryRow("SELECT (SELECT COUNT(*) FROM lockstep_tasks) + (SELECT COUNT(*) FROM lockstep_done)").Scan(&tasks); err != nil || tasks != 1 {
		t.Errorf("%d tasks, %v", tasks, err)
	}
	p.Drain(t, 30*time.Second)
}
