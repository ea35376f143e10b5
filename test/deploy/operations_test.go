package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const operations = "../../docs/operations.md"

var (
	backquoted = regexp.MustCompile("`([^`]+)`")
	testNames  = regexp.MustCompile("((?:`Test\\w+`(?:, | and )?)+) in ([a-z/]+)")
	metricName = regexp.MustCompile(`lockstep_[a-z_]+(_total|_seconds|_up|_jobs|_draining)\b`)
	alertName  = regexp.MustCompile(`Lockstep[A-Z][A-Za-z]+`)
)

// Every test that the page of operations names is there, and each row of its table names one.
func TestOperationsNamesTests(t *testing.T) {
	servers.ForgetResult() // the cache does not see that tests elsewhere went away
	text := readFile(t, operations)
	named := 0
	for _, m := range testNames.FindAllStringSubmatch(text, -1) {
		for _, name := range backquoted.FindAllStringSubmatch(m[1], -1) {
			named++
			if !hasTest(t, m[2], name[1]) {
				t.Errorf("there is no %s in %s", name[1], m[2])
			}
		}
	}
	if all := strings.Count(text, "`Test"); named != all {
		t.Errorf("%d tests are named in the form `TestName` in folder, of %d", named, all)
	}
	rows := section(text, "## When something dies")
	if len(rows) < 20 {
		t.Fatalf("the table of failures has %d rows", len(rows))
	}
	for _, row := range rows {
		if len(row) != 5 || !testNames.MatchString(row[4]) {
			t.Errorf("a row names no test: %q", row)
		}
	}
}

// What the page says of logs, metrics and alerts is what there is.
func TestOperationsNamesWhatIsThere(t *testing.T) {
	servers.ForgetResult() // nor that sources did
	text := readFile(t, operations)
	var sources strings.Builder
	for _, folder := range []string{"scheduler", "scheduler/internal/*", "api", "cmd/scheduler"} {
		files, err := filepath.Glob("../../" + folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				sources.WriteString(readFile(t, file))
			}
		}
	}
	code := sources.String()
	messages := section(text, "Worth an alert where there are no metrics")
	if len(messages) < 8 {
		t.Fatalf("the table of log lines has %d rows", len(messages))
	}
	for _, row := range messages {
		if message := strings.Trim(row[0], "`"); !strings.Contains(code, message) {
			t.Errorf("no log message %q", message)
		}
	}
	for _, row := range section(text, "## When something dies") {
		for _, m := range regexp.MustCompile("(?:log|its own|later|of the others) ((?:`[^`]+`(?:, )?)+)").FindAllStringSubmatch(row[2], -1) {
			for _, message := range backquoted.FindAllStringSubmatch(m[1], -1) {
				if !strings.Contains(code, message[1]) {
					t.Errorf("no log message %q", message[1])
				}
			}
		}
	}
	metrics, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range metricName.FindAllString(text, -1) {
		if !strings.Contains(string(metrics), name) {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
	alerts := readFile(t, "../../deploy/prometheus/alerts.yaml")
	_, runbooks, _ := strings.Cut(text, "## Runbooks")
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		if !regexp.MustCompile(`\*\* \([\w, ]*\b` + m[1] + `\b`).MatchString(runbooks) {
			t.Errorf("the alert %s has no runbook", m[1])
		}
	}
	for _, name := range alertName.FindAllString(text, -1) {
		if !strings.Contains(alerts, "alert: "+name+"\n") {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// section returns the cells of the first table behind a line that begins so.
func section(text, begin string) (rows [][]string) {
	_, rest, _ := strings.Cut(text, begin)
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 2 {
		return nil
	}
	return rows[2:] // without head and rule
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		return strings.Contains(readFile(t, file), "func "+name+"(t *testing.T)")
	})
}
