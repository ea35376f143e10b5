package main

import (
	"bufio"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// The program without flags, and on databases with and without helpful DSN parameters: a paid order has its receipt, a
// declined one left nothing, and the report is right.
func TestEmbed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "embed")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, flags := range map[string]string{
		"SQLite":        "",
		"MySQL":         "?parseTime=true&clientFoundRows=true",
		"bare MySQL":    "?parseTime=false&clientFoundRows=false&interpolateParams=false",
		"another MySQL": "?multiStatements=true&interpolateParams=true&loc=Local",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(program)
			cmd.Dir = t.TempDir()
			driver, dsn := "sqlite", filepath.Join(cmd.Dir, "shop.db")
			if flags != "" {
				dsn, _, _ = strings.Cut(servers.MySQL(t), "?")
				dsn, driver = dsn+flags, "mysql"
				cmd.Args = append(cmd.Args, "-mysql", dsn)
			}
			said := reported(t, cmd)
			if !strings.Contains(said, "no tea: the card was declined\n") || strings.Count(said, "receipt for order") != 1 || !strings.Contains(said, ": one coffee\n") {
				t.Errorf("it said\n%s", said)
			}
			db, err := sql.Open(driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for query, want := range map[string]int{
				"SELECT COUNT(*) FROM orders":                           1,
				"SELECT COUNT(*) FROM lockstep_tasks WHERE job = ''":    0,
				"SELECT COUNT(*) FROM lockstep_done WHERE job = ''":     1,
				"SELECT COUNT(*) FROM lockstep_sessions WHERE dead = 0": 0,
				// On a slow machine a due time may be skipped, as the report before is not over, or be undecided when it stops.
				"SELECT COUNT(*) FROM lockstep_triggers WHERE NOT (outcome = 'ran' AND result = 'succeeded' OR outcome = 'skipped' AND reason_code = 'slot_taken' OR outcome = '')": 0,
			} {
				var got int
				if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
					t.Errorf("%s: %d, %v; want %d", query, got, err, want)
				}
			}
		})
	}
}

// reported runs the program until it has reported, interrupts it, and returns its output.
func reported(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := servers.Start(cmd); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var said strings.Builder
	receipt, report := false, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		receipt = receipt || strings.HasPrefix(lines.Text(), "receipt")
		if !report && receipt && strings.HasPrefix(lines.Text(), "report of") && strings.HasSuffix(lines.Text(), ", orders: 1") {
			report = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !report {
		t.Errorf("%v\n%s%s", err, &said, &errs)
	}
	return said.String()
}
