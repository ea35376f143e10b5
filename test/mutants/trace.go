package mutants

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// reach finds which tests reach which mutants, each test alone.
func (r *runner) reach(ctx context.Context) error {
	binary, err := os.ReadFile(r.binary) // the tests are in it
	if err != nil {
		return err
	}
	sum := sha256.Sum256(binary)
	file := filepath.Join(r.dir, "reach-"+hex.EncodeToString(sum[:6])+".json")
	r.tests = map[string]reached{}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &r.tests); err != nil {
			return err
		}
	}
	names := r.Only
	if names == nil {
		out, err := r.command(ctx, nil, "-test.list", ".").Output()
		if err != nil {
			return fmt.Errorf("%s -test.list: %w", r.binary, err)
		}
		for _, name := range strings.Fields(string(out)) {
			if strings.HasPrefix(name, "Test") && (r.Tests == nil || r.Tests.MatchString(name)) {
				names = append(names, name)
			}
		}
	}
	if err := r.traceAll(ctx, file, names); err != nil {
		return err
	}
	for _, name := range names {
		if one := r.tests[name]; r.Whole {
			one.Parts = nil
			r.tests[name] = one
		} else if err := r.traceAll(ctx, file, one.Parts); err != nil {
			return err
		}
	}
	r.tests = judges(names, r.tests)
	return nil
}

// judges are the tests that fail only by a mutant: the subtests of one that takes long, and that one as a whole
// for what none of them reaches alone. Tests together reach more than each does alone.
func judges(names []string, tests map[string]reached) map[string]reached {
	all := map[string]reached{}
	for _, name := range names {
		whole := tests[name]
		for _, part := range whole.Parts {
			if one := tests[part]; !one.Failed {
				all[part] = one
				whole.Seen = slices.DeleteFunc(slices.Clone(whole.Seen), func(seen string) bool { return slices.Contains(one.Seen, seen) })
			}
		}
		if !whole.Failed && (len(whole.Parts) == 0 || len(whole.Seen) > 0) {
			all[name] = whole
		}
	}
	return all
}

// traceAll runs each of some tests alone, but for those that file knows already.
func (r *runner) traceAll(ctx context.Context, file string, names []string) error {
	next := make(chan string)
	var join sync.WaitGroup
	var failed error
	for range max(1, r.AtOnce) {
		join.Go(func() {
			for name := range next {
				one, err := r.trace(ctx, name)
				r.mu.Lock()
				if err == nil {
					r.tests[name] = one
					var text []byte
					if text, err = json.Marshal(r.tests); err == nil {
						err = os.WriteFile(file, text, 0o600)
					}
				}
				failed = cmp.Or(failed, err)
				r.mu.Unlock()
			}
		})
	}
	for _, name := range names {
		r.mu.Lock()
		_, known := r.tests[name]
		r.mu.Unlock()
		if !known && ctx.Err() == nil {
			next <- name
		}
	}
	close(next)
	join.Wait()
	return cmp.Or(failed, ctx.Err())
}

// trace runs one test alone.
func (r *runner) trace(ctx context.Context, name string) (reached, error) {
	seen, err := os.CreateTemp(r.dir, "seen")
	if err != nil {
		return reached{}, err
	}
	defer os.Remove(seen.Name())
	defer seen.Close()
	out, err := r.command(ctx, []string{"LOCKSTEP_MUTANTS_SEEN=" + seen.Name()}, "-test.run", pattern([]string{name}), "-test.v", "-test.timeout", "5m").CombinedOutput()
	if ctx.Err() != nil {
		return reached{}, ctx.Err()
	}
	one := reached{Failed: err != nil, Seconds: seconds(string(out))}
	if !strings.Contains(name, "/") && one.Seconds > long {
		one.Parts = leaves(name, string(out))
	}
	if err != nil && one.Parts == nil {
		fmt.Fprintf(r.Log, "%s fails without a mistake and judges nothing: %v\n%s\n", name, err, tail(out))
	}
	one.Seen, err = lines(seen.Name())
	return one, err
}

var (
	ended = regexp.MustCompile(`(?m)^( *)--- [A-Z]+: \S+ \(([0-9.]+)s\)$`)
	runs  = regexp.MustCompile(`(?m)^=== RUN +(\S+)$`)
)

// seconds is how long a test took, or its subtests one after the other: its own time is without those that are
// parallel.
func seconds(out string) float64 {
	sum := map[string]float64{}
	longest := 0.0
	for _, took := range ended.FindAllStringSubmatch(out, -1) {
		s, _ := strconv.ParseFloat(took[2], 64)
		sum[took[1]] += s
		longest = max(longest, sum[took[1]])
	}
	return longest
}

// leaves are the subtests of a test that have none themselves.
func leaves(name, out string) (all []string) {
	var names []string
	for _, m := range runs.FindAllStringSubmatch(out, -1) {
		if strings.HasPrefix(m[1], name+"/") {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	for _, n := range names {
		if !slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, n+"/") }) {
			all = append(all, n)
		}
	}
	return slices.Compact(all)
}

// pattern is what -test.run takes for just these tests and subtests.
func pattern(tests []string) string {
	var all []string
	for _, name := range tests {
		elements := strings.Split(name, "/")
		for i, e := range elements {
			elements[i] = "^" + regexp.QuoteMeta(e) + "$"
		}
		all = append(all, strings.Join(elements, "/"))
	}
	return strings.Join(all, "|")
}

func tail(out []byte) string {
	if len(out) > 2000 {
		out = out[len(out)-2000:]
	}
	return string(out)
}

func lines(file string) ([]string, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]bool{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		all[s.Text()] = true
	}
	return slices.Sorted(maps.Keys(all)), s.Err()
}
