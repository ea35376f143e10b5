package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

var withReload = Options{Environ: []string{"PATH=/bin:/usr/bin", "TEAM=infra"}, Reloadable: true, Funcs: map[string]jobs.Handler{
	"report": jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil }), "f": &stateful{1}, "g": &stateful{2},
}}

// stateful is a handler that does not say what it does.
type stateful struct{ n int }

func (*stateful) Run(context.Context, jobs.Task, io.Writer) error { return nil }

// opened are the paths that a load with these options tells of, and what it returns.
func opened(load func(o Options) (*Config, error), o Options) (c *Config, paths []string, err error) {
	o.Opened = func(path string, _ []byte) { paths = append(paths, path) }
	c, err = load(o)
	slices.Sort(paths)
	return c, slices.Compact(paths), err
}

// likeWhole loads a text after another one, and compares it with what it is by itself. It reports whether the load was incremental; none with an error is.
func likeWhole(t interface{ Fatalf(string, ...any) }, path, before, after string) (taken bool) {
	had, err := LoadBytes(path, []byte(before), withReload)
	if err != nil {
		return false
	}
	whole, paths, wrong := opened(func(o Options) (*Config, error) { return LoadBytes(path, []byte(after), o) }, withReload)
	o := withReload
	o.Previous = had
	again, pathsAgain, err := opened(func(o Options) (*Config, error) { return LoadBytes(path, []byte(after), o) }, o)
	if wrong != nil || err != nil {
		if !reflect.DeepEqual(wrong, err) {
			t.Fatalf("before:\n%s\nafter:\n%s\nwhole %v, again %v", before, after, wrong, err)
		}
		return false
	}
	part := loadIncremental(path, []byte(after), o)
	for _, c := range []*Config{again, part} {
		switch {
		case c == nil:
			continue
		case !reflect.DeepEqual(c.Warnings, whole.Warnings) || !reflect.DeepEqual(c.Settings, whole.Settings):
			t.Fatalf("before:\n%s\nafter:\n%s\nwhole %v %v\nagain %v %v", before, after, whole.Warnings, whole.Settings, c.Warnings, c.Settings)
		case !slices.Equal(paths, pathsAgain):
			t.Fatalf("before:\n%s\nafter:\n%s\nwhole opens %v, again %v", before, after, paths, pathsAgain)
		case !sameOrigin(c.origin, whole.origin):
			t.Fatalf("before:\n%s\nafter:\n%s\nwhole remembers %v\nagain %v", before, after, whole.origin, c.origin)
		}
		for name, job := range whole.Set.Jobs {
			if as, has := c.Set.Jobs[name]; !has || !job.Same(&as) {
				t.Fatalf("before:\n%s\nafter:\n%s\n%s is %+v\nand again %+v", before, after, name, job, as)
			}
		}
		if len(c.Set.Jobs) != len(whole.Set.Jobs) || len(c.Set.Pools) != len(whole.Set.Pools) || !reflect.DeepEqual(c.Set.Calendars, whole.Set.Calendars) {
			t.Fatalf("before:\n%s\nafter:\n%s\nwhole %+v\nagain %+v", before, after, whole.Set, c.Set)
		}
	}
	return part != nil
}

// sameOrigin compares what two loads remember; how much aliases may add is not known exactly.
func sameOrigin(a, b *origin) bool {
	if a == nil || b == nil {
		return a == b
	}
	beside := func(x, y fileOrigin) bool { return x.beside == y.beside && x.cut == y.cut }
	return maps.EqualFunc(a.files, b.files, beside) && maps.Equal(a.jobs, b.jobs)
}

// pieces are lines of jobs, right ones first; @N and @V are numbers.
var pieces = []string{
	"  plain-@N: {command: [echo, \"@V\"]}\n",
	"  lines-@N:\n    command: [\"/bin/echo\", hello]\n    schedule: \"*/@V * * * *\"\n    labels: {team: \"${TEAM}\"}\n\n",
	"  # a comment\n  commented-@N: # @V\n    shell: echo 2>&1 *.log\n",
	"  block-@N:\n    shell: |+\n      echo one\n      echo @V\n\n\n",
	"  folded-@N:\n    shell: >-\n      echo\n      @V\n",
	"  quoted-@N: {shell: \"echo\n    two @V\"}\n",
	"  brackets-@N: {command: [echo,\n    \"@V\"]}\n",
	"  \"key-@N\": {command: [echo, \"@V\"]}\n",
	"  func-@N: {func: report, payload: {n: @V}}\n",
	"  file-@N: {command: [echo], env_file: \"@V.env\"}\n",
	"  missing-@N: {command: [\"/nowhere/@V\"]}\n",
	"  anchor-@N: {command: [echo], labels: &l {team: \"@V\"}}\n",
	"  alias-@N: {command: [echo], labels: *l, timeout: @Vm}\n",
	"  merged-@N: {<<: *d, priority: @V}\n",
	"  Plain-@N: {command: [echo, \"@V\"]}\n",
	"  pooled-@N: {pool: mail, payload: {n: @V}}\n",
	"  late-@N: {command: [echo], expect: {start_within: @Vm}}\n",
	"  lists-@N:\n    command:\n    - echo\n    - \"@V\"\n",
	"  wrong-@N: {command: [echo], timout: @Vm}\n",
	"  open-@N: {shell: \"echo @V}\n",
	"  close-@N\": 1, x: \"@V\"}\n",
	"    deep-@N: {command: [echo, \"@V\"]}\n",
	" shallow-@N: {command: [echo, \"@V\"]}\n",
	"  <<: {inline-@N: {command: [echo, \"@V\"]}}\n",
	"  flow-@N: {command: [*c,\"@V\"]}\n",
	"  comma-@N: {command: [echo,*c]}\n",
	"  brace-@N: {shell: echo, labels: {&c echo: \"@V\"}}\n",
	"  colon-@N: {shell: echo, \"labels\":&l {team: \"@V\"}}\n",
	"  goes-@N: {command: [echo,\n  on-@V]}\n",
	"  control-@N: {shell: \"\x01@V\"}\n",
	"\n\n",
	"# @N, @V\n",
}

var heads = []string{
	"version: 1\njobs:\n",
	"version: 1\nx-labels: &l {team: infra}\nx-job: &d {command: [&c echo]}\ndefaults: {retries: {limit: 1, on: [75]}}\npools:\n  mail: {command: [cat]}\njobs:   # all\n\n",
	"version: 1\npools: {mail: {http: {url: \"http://127.0.0.1:1/\"}}}\ndefaults: {retries: {limit: 1, on: [75]}}\njobs:\n",
	"version: 1\nx-note: \"one\njobs:\n",
}

var tails = []string{"", "", "", "x-mine: 1\n", "replica: {workers: 3}\n", "# the end\n", "pools:\n  other: {command: [cat]}\n", "\"\n"}

// A file that is loaded after another one is what it is by itself, whatever both have.
func TestIncrementalAsWhole(t *testing.T) {
	taken, folder := 0, t.TempDir()
	for i := range 4 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i, ".env")), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.Custom(func(t *rapid.T) string {
			p := rapid.SampledFrom(pieces).Draw(t, "piece")
			if rapid.IntRange(0, 2).Draw(t, "right") > 0 { // else few files have no error
				p = rapid.SampledFrom(pieces[:12]).Draw(t, "right piece")
			}
			return strings.NewReplacer("@N", fmt.Sprint(rapid.IntRange(1, 9).Draw(t, "name")), "@V", fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "value"))).Replace(p)
		})
		head, tail := rapid.SampledFrom(heads).Draw(t, "head"), rapid.SampledFrom(tails).Draw(t, "tail")
		all := rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces")
		before := head + strings.Join(all, "") + tail
		for range rapid.IntRange(0, 3).Draw(t, "edits") {
			at := rapid.IntRange(0, len(all)).Draw(t, "at")
			end := min(len(all), at+rapid.IntRange(0, 1).Draw(t, "removed"))
			all = slices.Concat(all[:at], rapid.SliceOfN(piece, 0, 1).Draw(t, "new"), all[end:])
		}
		if rapid.IntRange(0, 9).Draw(t, "around") == 0 {
			head, tail = rapid.SampledFrom(heads).Draw(t, "new head"), rapid.SampledFrom(tails).Draw(t, "new tail")
		}
		if likeWhole(t, filepath.Join(folder, "lockstep.yaml"), before, head+strings.Join(all, "")+tail) {
			taken++
		}
	})
	if taken == 0 {
		t.Error("no load was incremental")
	}
	t.Logf("%d loads were incremental", taken)
}

// What is not in the text of a job may change what it is.
func TestIncrementalWithOthers(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.RemoveAll(path), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	main := filepath.Join(folder, "lockstep.yaml")
	second := "  second: {shell: echo, working_dir: here, calendars: {exclude: [days]}, schedule: '@daily'}\n"
	write("lockstep.yaml", "version: 1\ninclude: [\"jobs.d/*.yaml\", \"more.d/*.yaml\", pools.yaml]\ncalendars: {days: {ics: days.ics}}\njobs:\n  first: {command: [\""+folder+"/run\"]}\n"+second, 0o600)
	write("jobs.d/a.yaml", "jobs:\n  a: {shell: echo, working_dir: here}\n  b: {shell: echo}\n", 0o600)
	write("more.d/c.yaml", "jobs:\n  c: {shell: echo}\n", 0o600)
	write("pools.yaml", "pools:\n  mail: {command: [cat]}\n", 0o600)
	days := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:%s\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	write("days.ics", fmt.Sprintf(days, "20261225"), 0o600)
	write("run", "#!/bin/sh\n", 0o700)
	other := jobs.Func(func(context.Context, jobs.Task, struct{}) error { return errors.ErrUnsupported })
	before, err := Load(main, withReload)
	if err != nil || len(before.Warnings) > 0 {
		t.Fatal(err, before)
	}
	for _, c := range []struct {
		name  string
		edit  func(o *Options)
		taken bool // the load is incremental
	}{
		{"nothing", func(*Options) {}, true},
		{"another calendar", func(*Options) { write("days.ics", fmt.Sprintf(days, "20261226"), 0o600) }, true},
		{"a job more", func(*Options) { write("more.d/c.yaml", "jobs:\n  c: {shell: echo}\n  d: {shell: echo}\n", 0o600) }, true},
		{"a job of another file", func(*Options) { write("more.d/c.yaml", "jobs:\n  c: {shell: echo}\n  a: {shell: echo}\n", 0o600) }, false},
		{"that differs in capitals", func(*Options) { write("more.d/c.yaml", "jobs:\n  c: {shell: echo}\n  A: {shell: echo}\n", 0o600) }, false},
		{"a job that has moved", func(*Options) {
			write("jobs.d/a.yaml", "jobs:\n  b: {shell: echo}\n", 0o600)
			write("more.d/c.yaml", "jobs:\n  a: {shell: echo, working_dir: here}\n  c: {shell: echo}\n", 0o600)
		}, true},
		{"another pool", func(*Options) { write("pools.yaml", "pools:\n  mail: {command: [cat, \"-\"]}\n", 0o600) }, false},
		{"no jobs in a file", func(*Options) { write("more.d/c.yaml", "jobs:\n", 0o600) }, false},
		{"a file less", func(*Options) {
			write("more.d/c.yaml", "", 0o600)
			_ = os.Remove(filepath.Join(folder, "more.d/c.yaml"))
		}, false},
		{"a file more", func(*Options) { write("more.d/d.yaml", "jobs:\n  d: {shell: echo}\n", 0o600) }, false},
		{"a program that is gone", func(*Options) { _ = os.Remove(filepath.Join(folder, "run")) }, false},
		{"another environment", func(o *Options) { o.Environ = []string{"PATH=/bin"} }, false},
		{"a function less", func(o *Options) { o.Funcs = nil }, false},
		{"another function", func(o *Options) { o.Funcs = map[string]jobs.Handler{"report": other} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			had := map[string]string{}
			for _, name := range []string{"lockstep.yaml", "jobs.d/a.yaml", "more.d/c.yaml", "pools.yaml", "days.ics", "run"} {
				text, err := os.ReadFile(filepath.Join(folder, name))
				if err != nil {
					t.Fatal(err)
				}
				had[name] = string(text)
			}
			defer func() {
				_ = os.Remove(filepath.Join(folder, "more.d/d.yaml"))
				for name, text := range had {
					write(name, text, 0o700)
				}
			}()
			o := withReload
			c.edit(&o)
			whole, wrong := Load(main, o)
			o.Previous = before
			again, err := Load(main, o)
			if fmt.Sprint(wrong) != fmt.Sprint(err) {
				t.Fatalf("whole %v, again %v", wrong, err)
			}
			text, _ := os.ReadFile(main)
			if taken := loadIncremental(main, text, o) != nil; taken != c.taken {
				t.Errorf("incremental: %v, want %v", taken, c.taken)
			}
			if wrong != nil {
				return
			}
			if !reflect.DeepEqual(whole.Warnings, again.Warnings) || len(whole.Set.Jobs) != len(again.Set.Jobs) || !reflect.DeepEqual(whole.Set.Calendars, again.Set.Calendars) {
				t.Errorf("whole %+v\nagain %+v", whole, again)
			}
			for name, job := range whole.Set.Jobs {
				if as := again.Set.Jobs[name]; !job.Same(&as) {
					t.Errorf("%s is %+v\nagain %+v", name, job, as)
				}
			}
		})
	}
}

// What a text is may depend on another one: then it is read again.
func TestIncrementalWithinJobs(t *testing.T) {
	const bomb = "x-l: &l {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8, i: 9, j: 10}\nx-m: &m [*l, *l, *l, *l, *l, *l, *l, *l, *l, *l]\nx-n: &n [*m, *m, *m, *m, *m, *m, *m, *m, *m, *m]\nx-o: &o [*n, *n, *n, *n, *n, *n, *n, *n, *n, *n]\n"
	warned := func(from int) string {
		var b strings.Builder
		for i := from; i < 1100; i++ {
			fmt.Fprintf(&b, "  j%d: {command: [nothere]}\n", i)
		}
		return b.String()
	}
	const some = "  k: {shell: echo}\n  l: {shell: echo}\n  m: {shell: echo}\n"
	for name, c := range map[string]struct {
		before, after string
		taken         bool
	}{
		"one of several":                    {"jobs:\n" + some + "  a: {shell: one}\n", "jobs:\n" + some + "  a: {shell: two}\n", true},
		"with an alias of what is before":   {"x-l: &l {x: y}\njobs:\n" + some + "  a: {shell: one, labels: *l}\n  b: {shell: one, labels: *l}\n", "x-l: &l {x: y}\njobs:\n" + some + "  a: {shell: two, labels: *l}\n  b: {shell: one, labels: *l}\n", true},
		"and another of what is before":     {"x-l: &l {x: y}\njobs:\n" + some + "  b: {shell: one, labels: *l}\n", "x-l: &l {x: z}\njobs:\n" + some + "  b: {shell: one, labels: *l}\n", false},
		"an anchor that goes":               {"x-l: &l {x: y}\njobs:\n" + some + "  a: {shell: one, labels: &l {x: z}}\n  b: {shell: one, labels: *l}\n", "x-l: &l {x: y}\njobs:\n" + some + "  b: {shell: one, labels: *l}\n", false},
		"an anchor of a key that goes":      {"x-l: &l echo\njobs:\n" + some + "  a: {shell: one, labels: {&l x: z}}\n  b: {command: [*l]}\n", "x-l: &l echo\njobs:\n" + some + "  b: {command: [*l]}\n", false},
		"an anchor that comes":              {"x-l: &l {x: y}\njobs:\n" + some + "  b: {shell: one, labels: *l}\n", "x-l: &l {x: y}\njobs:\n" + some + "  a: {shell: one, labels: &l {x: z}}\n  b: {shell: one, labels: *l}\n", false},
		"a list that goes on":               {"jobs:\n  a: {shell: echo}\n" + some + "  n: {shell: echo}\n", "jobs:\n  a: {command: [echo,\n" + some + "  on]}\n  \"n\": {shell: echo}\n", false},
		"a list that went on":               {"jobs:\n  a: {command: [echo,\n  more]}\n  b: {shell: echo}\n" + some, "jobs:\n  a: {command: [echo,\n  b: {shell: echo}\n" + some, false},
		"and with a key in its last line":   {"jobs:\n  a: {command: [echo,\n  more]}\n  \"b\": {shell: echo}\n" + some, "jobs:\n  a: {command: [echo,\n  b: {shell: echo}\n" + some, false},
		"a text that is not closed":         {"jobs:\n" + some + "  b: {shell: \"x\n  y\"}\n  c: {shell: echo}\n", "jobs:\n" + some + "  b: {shell: \"x\n  c: {shell: echo}\n", false},
		"and is closed after the jobs":      {"jobs:\n" + some + "  b: {shell: echo}\nx-note: \"one\n\"\n", "jobs:\n" + some + "  b: {shell: \"x}\nx-note: \"one\n\"\n", false},
		"brackets":                          {"jobs:\n  {a: {shell: echo},\n  b: {shell: echo}}\n", "jobs:\n  {a: {shell: echo},\n", false},
		"a list that the next key closes":   {"jobs:\n" + some + "  a: {shell: echo, x-l: [1,\nx-m: 1]}\n", "jobs:\n" + some + "  a: {shell: echo, x-l: [1,\n  b: {shell: echo}\nx-m: 1]}\n", false},
		"a text that the next key closes":   {"jobs:\n" + some + "  a: {shell: \"one\nx-b: \"}\nx-c: \" # \"\n", "jobs:\n  k: {shell: echo}\n  a: {shell: \"one\n  l: {shell: echo}\n  m: {shell: echo}\nx-b: \"}\nx-c: \" # \"\n", false},
		"a warning that another job had":    {"x-d: &d {command: [nothere]}\njobs:\n" + some + "  a: {<<: *d}\n  b: {<<: *d, priority: 1}\n", "x-d: &d {command: [nothere]}\njobs:\n" + some + "  b: {<<: *d, priority: 1}\n", true},
		"a warning of another job":          {"x-d: &d {command: [nothere]}\njobs:\n" + some + "  a: {<<: *d}\n  b: {<<: *d, priority: 1}\n", "x-d: &d {command: [nothere]}\njobs:\n" + some + "  b: {<<: *d, priority: 1}\n  a: {<<: *d}\n", true},
		"a function like that of another":   {"jobs:\n" + some + "  a: {func: f}\n", "jobs:\n" + some + "  a: {func: f}\n  b: {func: g}\n", false},
		"more warnings than are kept":       {"jobs:\n" + some + warned(0), "jobs:\n" + some + warned(10), true},
		"aliases that have become too many": {bomb + "jobs:\n" + some + "  a: {shell: one, x-all: [" + strings.Repeat("*o, ", 30) + "]}\n", bomb + "jobs:\n" + some + "  a: {shell: one, x-all: [" + strings.Repeat("*o, ", 30) + "]}\n  b: {shell: one, x-all: [" + strings.Repeat("*o, ", 30) + "]}\n", false},
		"a job that is there twice":         {"jobs:\n" + some + "  a: {shell: one}\n", "jobs:\n" + some + "  a: {shell: one}\n  a: {shell: one}\n", false},
		"a lock that is held otherwise":     {"jobs:\n" + some + "  a: {shell: one, locks: [{key: x, limit: 3}]}\n", "jobs:\n" + some + "  a: {shell: one, locks: [{key: x, limit: 3}]}\n  b: {shell: one, locks: [{key: x, limit: 5}]}\n", false},
		"jobs that are merged":              {"x-d: &d {z: {shell: echo}}\njobs:\n  <<: *d\n" + some + "  a: {shell: one}\n", "x-d: &d {z: {shell: echo}}\njobs:\n  <<: *d\n" + some + "  a: {shell: two}\n", true},
		"half of them":                      {"jobs:\n  a: {shell: one}\n" + some, "jobs:\n  a: {shell: two}\n  b: {shell: two}\n  k: {shell: echo}\n  l: {shell: echo}\n", true},
		"more than half of them":            {"jobs:\n  a: {shell: one}\n" + some, "jobs:\n  a: {shell: two}\n  b: {shell: two}\n  k: {shell: echo}\n", true},
		"many aliases": {bomb + "jobs:\n" + some + "  a: {shell: one}\n",
			bomb + "jobs:\n" + some + "  a: {shell: one, x-all: [" + strings.Repeat("*o, ", 60) + "]}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if taken := likeWhole(t, "/etc/lockstep.yaml", "version: 1\n"+c.before, "version: 1\n"+c.after); taken != c.taken {
				t.Errorf("incremental: %v, want %v", taken, c.taken)
			}
		})
	}
}

// A job is not what its text says alone: its file has anchors, and its handler what is in other files.
func TestIncrementalWithFiles(t *testing.T) {
	for name, edits := range map[string][2]map[string]string{
		"a job with an alias that moves": {{
			"lockstep.yaml": "version: 1\ninclude: [a.yaml, b.yaml]\n",
			"a.yaml":        "x-l: &l {team: a}\njobs:\n  a: {shell: echo}\n  b: {shell: echo}\n  c: {shell: echo, labels: *l}\n",
			"b.yaml":        "x-l: &l {team: b}\njobs:\n  d: {shell: echo}\n  e: {shell: echo}\n",
		}, {
			"a.yaml": "x-l: &l {team: a}\njobs:\n  a: {shell: echo}\n  b: {shell: echo}\n",
			"b.yaml": "x-l: &l {team: b}\njobs:\n  d: {shell: echo}\n  e: {shell: echo}\n  c: {shell: echo, labels: *l}\n",
		}},
		"the environment of defaults": {{
			"lockstep.yaml": "version: 1\ndefaults: {env_file: x.env}\njobs:\n  a: {shell: echo}\n  b: {shell: echo}\n",
			"x.env":         "A=one\n",
		}, {"x.env": "A=two\n"}},
		"that of the notifications of defaults": {{
			"lockstep.yaml": "version: 1\ndefaults: {notify: {shell: echo, env_file: x.env}}\njobs:\n  a: {shell: echo}\n  b: {shell: echo}\n",
			"x.env":         "A=one\n",
		}, {"x.env": "A=two\n"}},
		"that of a job": {{
			"lockstep.yaml": "version: 1\njobs:\n  a: {shell: echo, env_file: x.env}\n  b: {shell: echo}\n",
			"x.env":         "A=one\n",
		}, {"x.env": "A=two\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write := func(files map[string]string) {
				for name, text := range files {
					if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			main := filepath.Join(folder, "lockstep.yaml")
			write(edits[0])
			before, err := Load(main, withReload)
			if err != nil {
				t.Fatal(err)
			}
			write(edits[1])
			whole, err := Load(main, withReload)
			if err != nil {
				t.Fatal(err)
			}
			o := withReload
			o.Previous = before
			again, err := Load(main, o)
			if err != nil || len(again.Set.Jobs) != len(whole.Set.Jobs) {
				t.Fatal(err, again)
			}
			for name, job := range whole.Set.Jobs {
				if as := again.Set.Jobs[name]; !job.Same(&as) {
					t.Errorf("%s is %+v\nagain %+v", name, job, as)
				}
			}
		})
	}
}

// Of a file in which most has changed everything is read, and the jobs of the others are reused.
func TestIncrementalFileByFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("lockstep.yaml", "version: 1\ninclude: [a.yaml, b.yaml]\n")
	write("a.yaml", "jobs:\n  a: {shell: one}\n")
	write("b.yaml", "jobs:\n  b: {shell: one}\n")
	o := withReload
	for i := range 3 {
		write("a.yaml", fmt.Sprintf("jobs:\n  a: {shell: %d}\n", i))
		c, err := Load(filepath.Join(folder, "lockstep.yaml"), o)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if was := o.Previous.Set.Jobs; c.Set.Jobs["a"].Handler == was["a"].Handler || c.Set.Jobs["b"].Handler != was["b"].Handler {
				t.Errorf("%d: %+v, and before %+v", i, c.Set.Jobs, was)
			}
		}
		o.Previous = c
	}
}

// Where a job of a file goes on in what was beside the jobs, as its pools, jobs of other files that use these are read, too.
func TestIncrementalWithoutAPool(t *testing.T) {
	folder := t.TempDir()
	main := filepath.Join(folder, "lockstep.yaml")
	write := func(path, job string) {
		text := "version: 1\ninclude: [b.yaml]\njobs:\n  a: {shell: " + job + "\npools: {mail: {command: [cat]}}\nx-b: \"} #\"\n"
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.WriteFile(filepath.Join(folder, "b.yaml"), []byte("jobs:\n  b: {pool: mail}\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(main, "one}")
	o := withReload
	before, err := Load(main, o)
	if err != nil {
		t.Fatal(err)
	}
	write(main, "\"one")
	_, want := Load(main, o)
	o.Previous = before
	if _, err := Load(main, o); want == nil || !reflect.DeepEqual(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}
