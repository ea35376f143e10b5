package mutants

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Packages are those whose tests are to notice mutants.
var Packages = []string{
	"store", "locks", "locks/memlock", "locks/sqllock", "locks/redislock", "locks/zklock",
	"scheduler", "scheduler/internal/membership", "scheduler/internal/plan", "scheduler/internal/triggers", "scheduler/internal/work", "jobs",
}

// Options of Run; only Root, Package and Dir are required.
type Options struct {
	Root    string // of the module
	Package string // below it, "locks/sqllock"
	Dir     string // for the test binary, its traces, and the results; a later run continues there

	Mutants *regexp.Regexp // which, by name; nil: all
	Tests   *regexp.Regexp // which of the suite may judge; nil: all
	Sample  int            // so many of them, the same ones each time; 0: all
	Only    []string       // tests and subtests that judge, instead of those that Tests finds
	Again   bool           // those that survived an earlier run
	Whole   bool           // a test judges as a whole, however long it takes
	AtOnce  int            // runs of the tests; 0: one
	Wrap    []string       // goes before each command that takes long, as nice does
	Log     io.Writer      // a line for each result; nil: none
}

// Fates of a mutant.
const (
	Killed     = "killed"
	Survived   = "survived"
	Unreached  = "unreached"  // by any test
	Equivalent = "equivalent" // it survives, and equivalents.txt says why it may
)

// Result is the result of a mutant.
type Result struct {
	Name string `json:"name"`
	Line int    `json:"line,omitempty"`
	Fate string `json:"fate"`
	By   string `json:"by,omitempty"` // the test that failed
	Secs int    `json:"secs,omitempty"`
}

// reached is what one test reaches without a mutant.
type reached struct {
	Seconds float64
	Failed  bool
	Parts   []string // its subtests, which judge in its place
	Seen    []string
}

// long is from when on the subtests of a test run one by one.
const long = 2.0

// quick is how long tests may take that are tried before all others, and more how many times as long those may that are
// tried next.
const (
	quick = 4.0
	more  = 8.0
)

// Run makes the mutants of a package one by one and runs its tests that reach them, until one fails. It returns
// the results of this run and of earlier ones in the same folder.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	r := &runner{Options: o, dir: dir, binary: filepath.Join(dir, "mutants.test")}
	if r.Log == nil {
		r.Log = io.Discard
	}
	if r.source, err = build(o.Root, o.Package, r.binary, o.Wrap); err != nil {
		return nil, err
	}
	if err := r.reach(ctx); err != nil {
		return nil, err
	}
	if r.why, err = equivalents(); err != nil {
		return nil, err
	}
	return r.all(ctx)
}

type runner struct {
	Options
	dir    string
	binary string
	source *source
	tests  map[string]reached
	why    map[string]string

	mu      sync.Mutex
	results []Result
}

func (r *runner) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	words := append(append(r.Wrap[:len(r.Wrap):len(r.Wrap)], r.binary), args...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = filepath.Join(r.Root, r.Package)
	cmd.Env = append(append(os.Environ(), "LOCKSTEP_MUTANTS_OF="+r.Package), env...)
	cmd.WaitDelay = 10 * time.Second // servers that a killed run leaves hold its output
	return cmd
}

// planned is a mutant and the tests that reach it.
type planned struct {
	mutant
	env   string
	tests []string
}

func (r *runner) plan() []planned {
	by := map[string][]string{}
	for name, t := range r.tests {
		for _, seen := range t.Seen {
			by[seen] = append(by[seen], name)
		}
	}
	var all []planned
	for i, m := range r.source.mutants {
		n := strconv.Itoa(i)
		tests := by[n]
		if m.script {
			tests = slices.Collect(maps.Keys(r.tests))
		}
		all = append(all, planned{m, "LOCKSTEP_MUTANT_NUMBER=" + n, tests})
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if strings.Contains(name, " SQL ") {
			all = append(all, planned{mutant{name: name}, "LOCKSTEP_MUTANT=" + name, by[name]})
		}
	}
	for _, p := range all {
		slices.SortFunc(p.tests, func(a, b string) int {
			return cmp.Or(cmp.Compare(r.tests[a].Seconds, r.tests[b].Seconds), cmp.Compare(a, b))
		})
	}
	return all
}

func (r *runner) all(ctx context.Context) ([]Result, error) {
	file := filepath.Join(r.dir, "results.jsonl")
	old, err := lines(file)
	if err != nil {
		return nil, err
	}
	done := map[string]Result{}
	for _, line := range old {
		var one Result
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		done[one.Name] = one
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	write := func(one Result) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.results = append(r.results, one)
		lines := json.NewEncoder(out)
		lines.SetEscapeHTML(false)
		return lines.Encode(one)
	}
	var todo []planned
	for _, p := range r.plan() {
		chosen := r.Mutants == nil || r.Mutants.MatchString(p.name)
		one, known := done[p.name]
		if one.Fate == Survived && r.why[p.name] != "" {
			one.Fate = Equivalent
		}
		switch {
		case known && (one.Fate == Killed || one.Fate == Equivalent || !r.Again || !chosen):
			one.Line = p.line
			if err := write(one); err != nil {
				return nil, err
			}
		case chosen:
			todo = append(todo, p)
		}
	}
	if r.Sample > 0 && len(todo) > r.Sample {
		hash := func(p planned) uint64 {
			h := fnv.New64a()
			h.Write([]byte(p.name))
			return h.Sum64()
		}
		slices.SortFunc(todo, func(a, b planned) int { return cmp.Compare(hash(a), hash(b)) })
		todo = todo[:r.Sample]
	}
	fmt.Fprintf(r.Log, "%s: %d mutants to go, %d known, %d tests\n", r.Package, len(todo), len(r.results), len(r.tests))
	next := make(chan planned)
	failed := make(chan error, max(1, r.AtOnce))
	var join sync.WaitGroup
	for range max(1, r.AtOnce) {
		join.Go(func() {
			for p := range next {
				one := r.judge(ctx, p)
				if ctx.Err() != nil {
					return
				}
				fmt.Fprintf(r.Log, "%-10s %s (line %d) %s %ds\n", one.Fate, one.Name, one.Line, one.By, one.Secs)
				if err := write(one); err != nil {
					failed <- err
					return
				}
			}
		})
	}
feed:
	for _, p := range todo {
		select {
		case next <- p:
		case <-ctx.Done():
			break feed
		case err = <-failed:
			break feed
		}
	}
	close(next)
	join.Wait()
	return r.results, cmp.Or(err, ctx.Err())
}

// judge runs the tests that reach a mutant: the quick ones, then more and more, and at last all at once, since
// some fail only together with others that share a server with them.
func (r *runner) judge(ctx context.Context, p planned) Result {
	one := Result{Name: p.name, Line: p.line, Fate: Unreached}
	if len(p.tests) == 0 {
		return one
	}
	began := time.Now()
	one.Fate = Survived
	n, seconds := 0, 0.0
	for room := quick; one.Fate == Survived && n < len(p.tests); room *= more {
		for first := n; n < len(p.tests) && (n == first || seconds+r.tests[p.tests[n]].Seconds <= room); n++ {
			seconds += r.tests[p.tests[n]].Seconds
		}
		out, err := r.command(ctx, []string{p.env}, "-test.run", pattern(p.tests[:n]), "-test.failfast", "-test.count", "1",
			"-test.timeout", fmt.Sprintf("%.0fs", 20+3*seconds)).CombinedOutput()
		if err != nil {
			one.Fate, one.By = Killed, blame(string(out))
		}
	}
	one.Secs = int(time.Since(began).Seconds())
	if one.Fate == Survived && r.why[p.name] != "" {
		one.Fate = Equivalent
	}
	return one
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// blame is the test that failed, the innermost one.
func blame(out string) string {
	if strings.Contains(out, "panic: test timed out") {
		return "a timeout"
	}
	longest := ""
	for _, m := range failure.FindAllStringSubmatch(out, -1) {
		if len(m[1]) > len(longest) {
			longest = m[1]
		}
	}
	return cmp.Or(longest, "a panic")
}

// Known returns the results of earlier runs in a folder.
func Known(_ context.Context, o Options) ([]Result, error) {
	all, err := lines(filepath.Join(o.Dir, "results.jsonl"))
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(all))
	for i, line := range all {
		if err := json.Unmarshal([]byte(line), &results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}
