package seeded

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every bug applies to the present source, once, and compiles.
func TestBugsFitTheSource(t *testing.T) {
	all := product(t)
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			changed, err := b.Sources(root)
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range changed {
				was, err := os.ReadFile(filepath.Join(root, file))
				if err != nil || string(was) == text {
					t.Errorf("%s is as it was, %v", file, err)
				}
			}
			compiles(t, all, changed)
		})
	}
}

// A test of the product fails with the bug that it is named for: the flags put the bug into what go test builds.
func TestCaughtDirectly(t *testing.T) {
	b, err := Find("worker-completes-without-token")
	if err != nil {
		t.Fatal(err)
	}
	flags, err := b.Overlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", slices.Concat([]string{"test"}, flags, strings.Fields(b.Directly))...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+strings.Fields(b.Directly)[1]) {
		t.Errorf("go %s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, out)
	}
}

// The check finds a bug that does not compile, also if another package fails.
func TestCompiles(t *testing.T) {
	all := product(t)
	c := newChecker(all)
	words := all[slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == module+"/internal/ledger" })]
	hurt := all[slices.IndexFunc(all, func(p listed) bool { return p.ImportPath == module+"/store" })]
	text, err := os.ReadFile(filepath.Join(root, "internal/ledger/retired.go"))
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]string{"internal/ledger/retired.go": strings.Replace(string(text), "ReasonRetired", "Retired", 1)}
	if err := c.check(words, changed); err != nil {
		t.Fatal(err)
	}
	if err := c.check(hurt, changed); err == nil {
		t.Error("a missing name is not reported")
	}
}

// Each diff belongs to a bug of the table, and each bug has all fields. The test of the product that it names
// exists.
func TestTable(t *testing.T) {
	var named, diffs []string
	for _, b := range All() {
		named = append(named, b.Name)
		if b.Mistake == "" || b.Breaks == "" || b.Cell == "" || len(b.Nemeses) == 0 || len(b.Caught) == 0 {
			t.Errorf("%s: something is missing: %+v", b.Name, b)
		}
		if _, err := Find(b.Name); err != nil {
			t.Error(err)
		}
		if b.Directly != "" && !hasTest(t, b.Directly) {
			t.Errorf("%s: there is no test as in %q", b.Name, b.Directly)
		}
	}
	files, err := bugs.ReadDir("bugs")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		diffs = append(diffs, strings.TrimSuffix(f.Name(), ".diff"))
	}
	slices.Sort(named)
	if diff := cmp.Diff(named, diffs); diff != "" {
		t.Error(diff)
	}
	if _, err := Find("none"); err == nil || !strings.Contains(err.Error(), "blind-retry") {
		t.Errorf("a bug that there is not: %v", err)
	}
}

// hasTest reports whether a folder has a test whose name begins as the arguments of go test say:
// "-run TestName/… ./folder".
func hasTest(t *testing.T, args string) bool {
	t.Helper()
	words := strings.Fields(args)
	if len(words) != 3 || words[0] != "-run" {
		return false
	}
	name, _, _ := strings.Cut(words[1], "/")
	files, err := filepath.Glob(filepath.Join(root, words[2], "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nfunc "+name)
	})
}

func TestParse(t *testing.T) {
	edits, err := parse("diff --git x y\n--- a.sql\n+++ a.sql\n@@ -1,3 +1,3 @@ head\n same\n--- a comment\n+-- another\n\n@@ -9 +9 @@\n-x\n+y\n\\ No newline\n--- b.go\n+++ b.go\n@@ -1 +1,2 @@\n z\n+n\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Edit{
		{"a.sql", "same\n-- a comment\n\n", "same\n-- another\n\n"},
		{"a.sql", "x\n", "y\n"},
		{"b.go", "z\n", "z\nn\n"},
	}
	if diff := cmp.Diff(want, edits); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{"empty": "", "no file": "@@ -1 +1 @@\n-x\n+y\n", "garbage": "+++ a\n@@ -1 +1 @@\nx\n"} {
		if edits, err := parse(text); err == nil {
			t.Errorf("%s: %v", name, edits)
		}
	}
}

// A text that is missing, or there twice, is named.
func TestApply(t *testing.T) {
	for _, text := range []string{"y\n", "x\nx\n"} {
		if got, err := apply(text, []Edit{{"f.go", "x\n", "z\n"}}); err == nil || !strings.Contains(err.Error(), "f.go") {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
	if got, err := apply("a\nx\nb\n", []Edit{{"f.go", "x\n", "z\n"}}); got != "a\nz\nb\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Other overlays hold beside a bug's, unless they want the same file.
func TestOverlay(t *testing.T) {
	b := All()[0]
	changed, err := b.Sources(root)
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string) string {
		file := filepath.Join(t.TempDir(), "other.json")
		text, err := json.Marshal(overlay{map[string]string{name: "z"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	flags, err := b.Overlay(root, t.TempDir(), other("/usr/lib/time.go"))
	if err != nil || len(flags) != 2 || flags[0] != "-overlay" {
		t.Fatal(flags, err)
	}
	text, err := os.ReadFile(flags[1])
	if err != nil {
		t.Fatal(err)
	}
	var got overlay
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Replace) != len(changed)+1 || got.Replace["/usr/lib/time.go"] != "z" {
		t.Errorf("%v", got.Replace)
	}
	for file, want := range changed {
		at, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(got.Replace[at]); err != nil || string(text) != want {
			t.Errorf("%s is not replaced by what it becomes: %v", file, err)
		}
		if _, err := b.Overlay(root, t.TempDir(), other(at)); err == nil {
			t.Errorf("two overlays replace %s", file)
		}
	}
}
