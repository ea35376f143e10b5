package metrics

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func families() []*family { return slices.Concat(happens, asked, stands, stored) }

var update = flag.Bool("update", false, "write what is made of the metrics")

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every metric is one of families, under its name, with its labels and its kind.
func TestFamilies(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(scrape(t, full(t).Handler(), false).Body.String()) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "+namespace); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(rest), " ")
			seen[name+" "+kind] = true
		}
	}
	for _, f := range families() {
		if key := f.name + " " + string(f.kind); seen[key] {
			delete(seen, key)
		} else {
			t.Errorf("%s never showed", key)
		}
	}
	for key := range seen {
		t.Errorf("%s is not among the families", key)
	}
}

// table is the generated part of docs/metrics.md.
func table() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		list  part
	}{{"What replicas do", happens}, {"What replicas ask", asked}, {"How a replica stands", stands}, {"How the cluster stands", stored}} {
		fmt.Fprintf(&b, "\n### %s\n\n| metric | kind | labels | says |\n|---|---|---|---|\n", part.title)
		for _, f := range part.list {
			kind := string(f.kind)
			if f.cluster {
				kind += ", cluster"
			}
			labels := "`" + strings.Join(f.labels, "` `") + "`"
			if len(f.labels) == 0 {
				labels = ""
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.full(), kind, labels, f.help)
		}
	}
	return b.String()
}

const (
	tableBegins = "<!-- Made by: go test ./metrics -run TestDocument -update -->\n"
	tableEnds   = "\n<!-- end -->\n"
)

func TestDocument(t *testing.T) {
	const file = "../docs/metrics.md"
	text := read(t, file)
	before, rest, ok := strings.Cut(text, tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the comments around the table", file)
	}
	want := before + tableBegins + table() + tableEnds + after
	if want == text {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the metrics are: go test ./metrics -run TestDocument -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

var mention = regexp.MustCompile(`\b` + namespace + `[a-z_]+`)

// known reports whether a sample has the name.
func known(name string) bool {
	return slices.ContainsFunc(families(), func(f *family) bool {
		if f.kind != histogram {
			return name == f.full()
		}
		return name == f.full()+"_bucket" || name == f.full()+"_sum" || name == f.full()+"_count"
	})
}

// alerts are the parts of the rules that the tests need.
type alerts struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Annotations map[string]string
		}
	}
}

func alertRules(t *testing.T) (rules alerts) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "../deploy/prometheus/alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

var command = regexp.MustCompile("`scheduler ([^`]+)`")

// Each alert has a description with an existing command, existing metrics and a test.
func TestAlerts(t *testing.T) {
	t.Parallel()
	tests := read(t, "../deploy/prometheus/alerts_test.yaml")
	commands := map[string]bool{}
	count := 0
	for _, group := range alertRules(t).Groups {
		for _, r := range group.Rules {
			count++
			for _, name := range mention.FindAllString(r.Expr, -1) {
				if !known(name) {
					t.Errorf("%s asks for %s, which does not exist", r.Alert, name)
				}
			}
			if r.Annotations["summary"] == "" {
				t.Errorf("%s has no summary", r.Alert)
			}
			named := command.FindAllStringSubmatch(r.Annotations["runbook"], -1)
			if len(named) == 0 {
				t.Errorf("the runbook of %s names no command", r.Alert)
			}
			for _, c := range named {
				commands[c[1]] = true
			}
			if !strings.Contains(tests, r.Alert) {
				t.Errorf("%s has no test", r.Alert)
			}
		}
	}
	if count < 10 {
		t.Errorf("%d alerts", count)
	}
	program := filepath.Join(t.TempDir(), "scheduler")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/scheduler").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range slices.Sorted(maps.Keys(commands)) {
		words := strings.Fields(regexp.MustCompile(`\{\{[^}]*\}\}`).ReplaceAllString(c, "x"))
		out, err := exec.CommandContext(t.Context(), program, append(words, "--help")...).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("scheduler "+words[0])) {
			t.Errorf("scheduler %s: %v\n%s", c, err, out)
		}
	}
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	servers.Need(t, "promtool")
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = "../deploy/prometheus"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "prometheus.yaml")
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml")
}

// promtool accepts the metrics.
func TestPromtoolLikesTheMetrics(t *testing.T) {
	t.Parallel()
	servers.Need(t, "promtool")
	cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	cmd.Stdin = scrape(t, full(t).Handler(), false).Body
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// panel is one panel of the dashboard, or a row.
type panel struct {
	ID      int
	Title   string
	Type    string
	Panels  []panel
	Targets []struct{ Expr string }
	GridPos struct{ H, W, X, Y int }
}

// The dashboard is valid for Grafana, and its queries are valid and use existing metrics.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var d struct {
		Title, UID string
		Panels     []panel
	}
	if err := json.Unmarshal([]byte(read(t, "../deploy/grafana/lockstep.json")), &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	var exprs []string
	shown := map[string]bool{}
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
			for _, name := range mention.FindAllString(target.Expr, -1) {
				shown[name] = true
				if !known(name) {
					t.Errorf("%s asks for %s, which does not exist", p.Title, name)
				}
			}
		}
	}
	if d.Title == "" || d.UID == "" || len(exprs) < 20 {
		t.Errorf("%q %q shows %d things", d.Title, d.UID, len(exprs))
	}
	// As rules promtool parses them.
	var rules struct {
		Groups []map[string]any `yaml:"groups"`
	}
	var list []map[string]string
	for i, expr := range exprs {
		expr = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", "lockstep", "$instance", ".*", "$pool", ".*").Replace(expr)
		list = append(list, map[string]string{"record": fmt.Sprintf("panel:%d", i), "expr": expr})
	}
	rules.Groups = []map[string]any{{"name": "dashboard", "rules": list}}
	text, err := yaml.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
