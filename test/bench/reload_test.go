package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

const (
	// beats is how many jobs start each second, spread over it, while others are reloaded.
	beats = 200
	// reloads is how often a round reloads.
	reloads = 3
)

// reloaded is what one kind of store reached, in seconds.
type reloaded struct {
	kind                       kind
	parse, load, swap          samples
	before, beside, afterwards samples // the longest delay of a start: at rest, while the file is read, and from Replace on
}

// BenchmarkReload measures a reload in which a hundredth of many jobs has changed, and how late the starts of other jobs are meanwhile.
func BenchmarkReload(b *testing.B) {
	var field []*reloaded
	for _, k := range chosenKinds(b) {
		field = append(field, &reloaded{kind: k})
	}
	n := sized().yamlJobs
	t := newTable(b, fmt.Sprintf("Reload of %s changed of %s jobs, one replica, beside %d starts a second", count(float64(n/100)), count(float64(n)), beats),
		"", "yaml.v3: parse to nodes (min – max)", "config.Load", "Replace", "longest delay of a start at rest", "while the file is loaded", "while definitions are replaced, and 1 s after")
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r, n) })
	for _, d := range field {
		t.add(d.kind.name, d.parse.spread(lasting), d.load.spread(lasting), d.swap.spread(lasting), d.before.spread(lasting), d.beside.spread(lasting), d.afterwards.spread(lasting))
	}
	t.print()
}

func (d *reloaded) turn(r *round, n int) {
	s := d.kind.open(r)
	late := &starts{}
	file := filepath.Join(r.TempDir(), "lockstep.yaml")
	funcs := map[string]jobs.Handler{
		"beat":    jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error { late.add(t); return nil }),
		"nothing": jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil }),
	}
	var last *config.Config
	read := func(version int) jobs.Set {
		text := reloadText(n, version)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			r.Fatal(err)
		}
		began := time.Now()
		if err := yaml.Unmarshal(text, new(yaml.Node)); err != nil {
			r.Fatal(err)
		}
		parsed := time.Now()
		c, err := config.Load(file, config.Options{Funcs: funcs, Processors: 1, Previous: last, Reloadable: true})
		if err != nil {
			r.Fatal(err)
		}
		last = c
		if version > 0 {
			d.parse, d.load = append(d.parse, parsed.Sub(began).Seconds()), append(d.load, time.Since(parsed).Seconds())
			d.beside = append(d.beside, late.longest(parsed, time.Now()))
		}
		return c.Set
	}
	set := read(0)
	st := s.store(r)
	late.of, late.schedules = s.Namespace, map[string]*jobs.Schedule{}
	late.jobs = map[string]jobs.Job{}
	compiler := set.Compiler()
	for name, job := range set.Jobs {
		if strings.HasPrefix(name, "beat") {
			schedule, err := compiler.Compile(name, job)
			if err != nil {
				r.Fatal(err)
			}
			late.schedules[name], late.jobs[name] = schedule, job
		}
	}
	replica, err := scheduler.New(st, s.locker(r), set, scheduler.Options{ID: "replica", Workers: drainWorkers})
	if err != nil {
		r.Fatal(err)
	}
	run(r, replica)
	await.Until(r, "the replica has loaded", replica.Loaded)
	allReady(r, []*scheduler.Scheduler{replica})
	rest := sized().rest
	time.Sleep(2 * time.Second)
	began := time.Now()
	time.Sleep(rest)
	d.before = append(d.before, late.longest(began, time.Now()))
	for version := range reloads {
		set := read(version + 1)
		began := time.Now()
		out, err := replica.Replace(r.Context(), set, scheduler.ReplaceOptions{})
		d.swap = append(d.swap, time.Since(began).Seconds())
		if err != nil || !out.Governs || out.Pending != "" || len(out.Jobs.Changed) != n/100 {
			r.Fatalf("reloaded: %d jobs, %+v, %v", len(out.Jobs.Changed), out.Pending, err)
		}
		time.Sleep(time.Second)
		d.afterwards = append(d.afterwards, late.longest(began, time.Now()))
	}
}

// starts are how late tasks started, by when they were to start.
type starts struct {
	of        string // namespace
	jobs      map[string]jobs.Job
	schedules map[string]*jobs.Schedule

	mu  sync.Mutex
	all []start
}

type start struct {
	at   time.Time // when it was to be
	late time.Duration
}

func (s *starts) add(t jobs.Task) {
	now := time.Now()
	at := s.jobs[t.Job].Starts(s.schedules[t.Job], t.Job, s.of).Of(t.ScheduledAt)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, start{at, now.Sub(at)})
}

// longest is the longest delay, in seconds, of those that were to start between two times.
func (s *starts) longest(from, to time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []time.Duration
	for _, one := range s.all {
		if !one.at.Before(from) && one.at.Before(to) {
			found = append(found, one.late)
		}
	}
	if len(found) == 0 {
		return 0
	}
	return slices.Max(found).Seconds()
}

// reloadText is a file of n jobs that are due at the turn of the year, and of beats. In each version a hundredth has another schedule.
func reloadText(n, version int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	for i := range n {
		second := 0
		if i%100 == 0 {
			second = version
		}
		fmt.Fprintf(&b, `  job-%06d:
    schedule: "%d %d %d 1 1 *"
    func: nothing
    payload: {hello: "%d"}
    timeout: 10m
    labels: {team: infra}
`, i, second, i%60, i/60%24, i)
	}
	for i := range beats {
		fmt.Fprintf(&b, "  beat-%03d: {schedule: \"* * * * * *\", jitter: 999ms, func: beat}\n", i)
	}
	return []byte(b.String())
}
