package mutants

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// names are the mutants in the branches and the scripts of a package.
func names(t *testing.T, dir string) []string {
	t.Helper()
	s, err := mistakes(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range s.mutants {
		all = append(all, m.name)
	}
	return all
}

// Mutants that tests once did not notice are still made.
func TestBranches(t *testing.T) {
	for dir, want := range map[string][]string{
		"scheduler/internal/work": {
			"scheduler/internal/work/own.go Executor.ownRows GO without &&: !e.register.claimingSince(since)",
			"scheduler/internal/work/record.go recorder.take GO left out: r.room.Broadcast()",
			"scheduler/internal/work/look.go feeder.scope GO without slices.Clone: slices.Clone(f.skipJobs)",
			"scheduler/internal/work/execute.go Executor.start GO without context.WithoutCancel: context.WithoutCancel(ctx)",
			"scheduler/internal/work/attempt.go attempt.stop GO other sign: killBy.Add(-killMargin)",
			"scheduler/internal/work/deadline.go attempt.deadline GO bound: b.Until() > end.Until()",
			"scheduler/internal/work/poll.go Executor.poll GO max: min(2*wait, pollSlow)",
			"scheduler/internal/work/feed.go feeder.wanted GO doubled: claimBatch",
		},
		"scheduler/internal/triggers": {
			"scheduler/internal/triggers/stripes.go rank GO other variable self: id (2)",
			"scheduler/internal/triggers/decide.go coverage.due GO swapped 1 and 2: later(c.cursor, lateUntil)",
			"scheduler/internal/triggers/decide.go earlier GO After: a.Before(b)",
		},
		"scheduler/internal/membership": {
			"scheduler/internal/membership/clock.go Clock.Observe GO left out: c.base, c.next, c.seen, c.off, c.ahead = r, reading{}, 0, 0, min(c.ahead, r.trip)",
			"scheduler/internal/membership/clock.go Clock.Observe GO bound: c.seen >= consistentRenewals",
		},
		"store": {
			"store/claim.go claim.write GO always: len(w.taken) > 0",
			"store/task_state.go tx.endTasks GO other field ended: m.until",
			"store/enqueue.go tx.takeKeys GO turned: cmp.Compare(a.task.Pool, b.task.Pool)",
		},
		"locks/redislock": {
			"locks/redislock/queue.lua place LUA without and: under == acquisition",
			"locks/redislock/namespace.lua epoch LUA without field: 'began', text(now)",
			"locks/redislock/namespace.lua live LUA taken for >=: remaining(session) > 0",
			"locks/redislock/queue.lua free LUA left out: drop(key, field, value)",
			"locks/redislock/book.go book.granted GO always: waits",
		},
	} {
		all := names(t, dir)
		for _, name := range want {
			if !slices.Contains(all, name) {
				t.Errorf("%s is not among the %d of %s", name, len(all), dir)
			}
		}
		if slices.Sort(all); len(slices.Compact(all)) != len(names(t, dir)) {
			t.Errorf("two mistakes of %s have one name", dir)
		}
	}
}

// The source of each package with all its mutants is Go.
func TestMutantsCompile(t *testing.T) {
	for _, dir := range Packages {
		t.Run(dir, func(t *testing.T) {
			s, err := mistakes(root, dir)
			if err != nil {
				t.Fatal(err)
			}
			fset := token.NewFileSet()
			var files []*ast.File
			for name, text := range s.files {
				if filepath.Ext(name) != ".go" {
					continue
				}
				f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			if _, err := check(root, dir, fset, files); err != nil {
				t.Error(err)
			}
		})
	}
}

// One mutant of each sort is noticed, and is not active unless it is switched on.
func TestSample(t *testing.T) {
	for _, c := range []struct {
		dir, mutants string
		tests        []string
		killed       int
	}{
		{"jobs", `jobs/retries\.go (.* (never|always): delay|Retries\.Delay GO (min|max|other field|doubled))`, []string{"TestRetriesDelay"}, 4},
		{
			"store", `store/sweep\.go sweep\.once SQL SELECT triggers: AND (decided_at|finished_at)<\?|` +
				`store/claim\.go claim\.startTriggers SQL UPDATE triggers: (AND started_at=0|SET started_at=\?)`,
			[]string{"TestSQLite/Sweep/Triggers", "TestSQLite/Claims/FirstStart"}, 4,
		},
		{"locks/sqllock", `parts SQL SELECT lock_leases2: AND h\.namespace = \?$`, []string{"TestNamespacesInOneDatabaseKeepApart/sqlite"}, 1},
		{"locks/redislock", `standing LUA without and: till <= now \(2\)`, []string{"TestServerThatJustStartedWaits"}, 1},
	} {
		results, err := Run(t.Context(), Options{
			Root: root, Package: c.dir, Dir: t.TempDir(), Mutants: regexp.MustCompile(c.mutants), Only: c.tests, Log: t.Output(),
		})
		if err != nil {
			t.Fatal(err)
		}
		killed := 0
		for _, r := range results {
			if r.Fate == Killed {
				killed++
			}
		}
		if killed < c.killed {
			t.Errorf("%s: %d killed of %+v", c.mutants, killed, results)
		}
	}
}

// A run that tries some mutants again keeps the results of the others.
func TestAgain(t *testing.T) {
	o := Options{Root: root, Package: "jobs", Dir: t.TempDir(), Mutants: regexp.MustCompile("^none$"), Only: []string{"TestRetriesDelay"}, Again: true, Log: t.Output()}
	survivor := Result{Fate: Survived}
	for _, name := range names(t, "jobs") {
		if strings.HasPrefix(name, "jobs/retries.go ") {
			survivor.Name = name
			break
		}
	}
	text, err := json.Marshal(survivor)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "results.jsonl"), append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	results, err := Run(t.Context(), o)
	if err != nil || len(results) != 1 || results[0].Name != survivor.Name || results[0].Fate != Survived {
		t.Errorf("%+v, %v", results, err)
	}
}

// Each mutant of the list of equivalents can still be made.
func TestEquivalents(t *testing.T) {
	why, err := equivalents()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{}
	for name := range why {
		file, rest, _ := strings.Cut(name, " ")
		function, _, _ := strings.Cut(rest, " ")
		dir := filepath.Dir(file)
		if known[dir] == nil {
			known[dir] = names(t, dir)
		}
		if strings.Contains(name, " GO ") || strings.Contains(name, " LUA ") {
			if !slices.Contains(known[dir], name) {
				t.Errorf("%s: no such mistake", name)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		method := function[strings.LastIndexByte(function, '.')+1:]
		_, term, _ := strings.Cut(name, ": ")
		column := cmp.Or(regexp.MustCompile(`[a-z][a-z_]+`).FindString(term), strings.TrimPrefix(term, "AND ")) // or constants alone
		if !strings.Contains(string(text), ") "+method+"(") && !strings.Contains(string(text), "func "+method+"(") {
			t.Errorf("%s: %s has no function %s", name, file, method)
		}
		if column == "" || !strings.Contains(string(text), column) {
			t.Errorf("%s: %s says nothing of %q", name, file, column)
		}
	}
}
