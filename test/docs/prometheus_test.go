package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var (
	sample   = regexp.MustCompile(`\blockstep_[a-z_]+`)
	ofFamily = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// Every line of a promql block is an expression of metrics that there are, and Prometheus takes its
// own file as the page shows it.
func TestPrometheus(t *testing.T) {
	servers.Need(t, "promtool")
	list, err := os.ReadFile(filepath.Join(root, "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(b block, content string, args ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "prometheus.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("promtool", append(args, file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b.at(), err, out)
		}
	}
	queries, files := 0, 0
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			switch {
			case b.language == "yaml" && strings.Contains(b.body, "scrape_configs:"):
				files++
				check(b, b.body, "check", "config", "--syntax-only")
			case b.language == "promql":
				for line := range strings.Lines(b.body) {
					queries++
					rule := map[string]any{"record": "docs:line", "expr": line}
					text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "docs", "rules": []any{rule}}}}) // JSON is YAML
					if err != nil {
						t.Fatal(err)
					}
					check(b, string(text), "check", "rules")
					for _, name := range sample.FindAllString(line, -1) {
						if family := ofFamily.ReplaceAllString(name, ""); !strings.Contains(string(list), "\n| `"+name+"`") && !strings.Contains(string(list), "\n| `"+family+"` | histogram") {
							t.Errorf("%s: there is no metric %s", b.at(), name)
						}
					}
				}
			}
		}
	}
	if queries < 3 || files < 1 {
		t.Errorf("%d queries and %d files were found", queries, files)
	}
}
