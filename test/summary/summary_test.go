// Package summary ends the output of `go test ./...`: it lists the tests that were left out, with the reasons. With
// LOCKSTEP_TEST_ALL=1 it fails if there are any.
//
// Its name sorts after all others, so its result is the last that the go command prints. The go command shows nothing
// of a package that passes, so the summary is written to the go command's own output.
package summary

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// quiet is how long the go command must have had no other child before its other tests count as done: between the build
// of a package and its run there is a moment without one.
const quiet = time.Second

func TestNothingIsLeftOut(t *testing.T) {
	servers.ForgetResult() // a cached summary would tell of an earlier run
	waitForSiblings(t)
	text := summary(t)
	_ = os.RemoveAll(servers.NotesDir())
	if text == "" {
		return
	}
	if os.Getenv("LOCKSTEP_TEST_ALL") == "1" {
		t.Fatal(text)
	}
	if testing.Verbose() {
		fmt.Print(text)
		return
	}
	out, err := goOutput(os.Getppid())
	if err != nil {
		t.Logf("no way to write to the go command's output: %v", err)
		return
	}
	defer out.Close()
	// The rule comes first: if the output is a file that the go command and we write to with two
	// positions, its own last line lands on the rule.
	fmt.Fprintf(out, "%s\n%s", strings.Repeat("-", 120), text)
}

// summary has one line for each package and reason; it is empty if nothing was left out.
func summary(t *testing.T) string {
	files, err := filepath.Glob(filepath.Join(servers.NotesDir(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	type group struct{ pkg, reason string }
	tests := map[group]int{}
	here, _ := os.Getwd()
	root := filepath.Dir(filepath.Dir(here))
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if dir, rest, ok := strings.Cut(lines.Text(), "\t"); ok {
				_, reason, _ := strings.Cut(rest, "\t")
				pkg, _ := filepath.Rel(root, dir)
				tests[group{pkg, reason}]++
			}
		}
		file.Close()
	}
	if len(tests) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("LEFT OUT, and why (`make test` leaves nothing out):\n")
	for _, g := range slices.SortedFunc(maps.Keys(tests), func(a, b group) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.reason, b.reason))
	}) {
		plural := "s"
		if tests[g] == 1 {
			plural = ""
		}
		fmt.Fprintf(&text, "  %s: %d test%s: %s\n", g.pkg, tests[g], plural, g.reason)
	}
	return text.String()
}

// Started otherwise, there is nothing to wait for.
func waitForSiblings(t *testing.T) {
	list, err := processes()
	if err != nil {
		t.Logf("cannot see other test binaries: %v", err)
		return
	}
	if !slices.ContainsFunc(list, func(p process) bool { return p.id == os.Getppid() && p.name == "go" }) {
		return
	}
	end := time.Now().Add(24 * time.Hour)
	if until, ok := t.Deadline(); ok {
		end = until.Add(-30 * time.Second)
	}
	for since := time.Now(); time.Since(since) < quiet && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if list, err = processes(); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(list, func(p process) bool { return p.parent == os.Getppid() && p.id != os.Getpid() }) {
			since = time.Now()
		}
	}
}

type process struct {
	id, parent int
	name       string
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }
