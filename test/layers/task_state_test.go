package layers

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// writesState matches a statement, or a template of the SQL kit, that writes the state of a task.
var writesState = regexp.MustCompile(`(?is)^\s*(INSERT INTO )?\{(tasks|done)\} \(|^\s*UPDATE (\{each\})?\{(tasks|done)\}.*\bSET\b.*?\bstate=.*\bWHERE\b|^\s*\{delete\} \{tasks\}`)

// The state of a task is written in one file, so that a new rule for it has one place.
func TestTaskStateIsWrittenInOneFile(t *testing.T) {
	const home = "task_state.go"
	seen := 0
	for _, name := range files(t, "store", ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "storetest") {
			continue
		}
		for where, text := range literals(t, name) {
			switch writes := writesState.MatchString(text); {
			case writes && filepath.Base(name) == home:
				seen++
			case writes:
				t.Errorf("%s writes the state of tasks: %.60q; that belongs into store/%s", where, text, home)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d statements of %s are recognised", seen, home)
	}
}
