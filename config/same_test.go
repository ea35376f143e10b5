package config_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A nil function of the program is reported as nil.
func TestANilFunction(t *testing.T) {
	_, err := config.LoadBytes("a.yaml", []byte("version: 1\npools: {p: {func: report}}"), config.Options{Funcs: map[string]jobs.Handler{"report": nil}})
	if err == nil || !strings.Contains(err.Error(), `the function "report" of this program is nil; its Funcs must have a handler`) {
		t.Error(err)
	}
}

// A set has the same errors from a Go program and from a file: the same fields, perhaps in other words.
func TestGoAndYAMLAreJudgedAlike(t *testing.T) {
	work := jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil })
	job := func(edit func(j *jobs.Job)) jobs.Set {
		j := jobs.Job{Handler: work}
		edit(&j)
		return jobs.Set{Jobs: map[string]jobs.Job{"a": j}}
	}
	pool := func(edit func(p *jobs.Pool)) jobs.Set {
		p := jobs.Pool{Handler: work}
		edit(&p)
		return jobs.Set{Pools: map[string]jobs.Pool{"p": p}}
	}
	for text, set := range map[string]jobs.Set{
		`jobs: {a: {func: work, schedule: "61 * * * *"}}`:                            job(func(j *jobs.Job) { j.Schedule = "61 * * * *" }),
		`jobs: {a: {func: work, schedules: ["@daily", "0 0 30 2 *"]}}`:               job(func(j *jobs.Job) { j.Schedules = []string{"@daily", "0 0 30 2 *"} }),
		`jobs: {a: {func: work, schedule: "@daily", timezone: Europe/Londn}}`:        job(func(j *jobs.Job) { j.Schedule, j.Timezone = "@daily", "Europe/Londn" }),
		`jobs: {a: {func: work, timezone: Local}}`:                                   job(func(j *jobs.Job) { j.Timezone = "Local" }),
		`jobs: {a: {func: work, pool: none}}`:                                        job(func(j *jobs.Job) { j.Pool = "none" }),
		`jobs: {a: {func: work, concurrency: never}}`:                                job(func(j *jobs.Job) { j.Concurrency = "never" }),
		`jobs: {a: {func: work, queue_limit: 5}}`:                                    job(func(j *jobs.Job) { j.QueueLimit = 5 }),
		`jobs: {a: {func: work, concurrency: queue, queue_limit: 1001}}`:             job(func(j *jobs.Job) { j.Concurrency, j.QueueLimit = "queue", 1001 }),
		`jobs: {a: {func: work, concurrency: allow, max_running: 2}}`:                job(func(j *jobs.Job) { j.Concurrency, j.MaxRunning = "allow", 2 }),
		`jobs: {a: {func: work, max_running: 1000001}}`:                              job(func(j *jobs.Job) { j.MaxRunning = 1000001 }),
		`jobs: {a: {func: work, lost_limit: 101}}`:                                   job(func(j *jobs.Job) { j.LostLimit = 101 }),
		`jobs: {a: {func: work, on_lost: panic}}`:                                    job(func(j *jobs.Job) { j.OnLost = "panic" }),
		`jobs: {a: {func: work, timeout: 9000h}}`:                                    job(func(j *jobs.Job) { j.Timeout = 9000 * time.Hour }),
		`jobs: {a: {func: work, retries: {limit: 1001}}}`:                            job(func(j *jobs.Job) { j.Retries.Limit = 1001 }),
		`jobs: {a: {func: work, retries: {limit: 1, backoff: 1h, max_backoff: 1m}}}`: job(func(j *jobs.Job) { j.Retries = jobs.Retries{Limit: 1, Backoff: time.Hour, MaxBackoff: time.Minute} }),
		`jobs: {a: {func: work, retries: {limit: 1, on: [75]}}}`:                     job(func(j *jobs.Job) { j.Retries = jobs.Retries{Limit: 1, On: []int{75}} }),
		`jobs: {a: {func: work, retries: {limit: 1, on: [0, 600]}}}`:                 job(func(j *jobs.Job) { j.Retries = jobs.Retries{Limit: 1, On: []int{0, 600}} }),
		`jobs: {a: {func: work, retries: {limit: 1, on: [5, 5]}}}`:                   job(func(j *jobs.Job) { j.Retries = jobs.Retries{Limit: 1, On: []int{5, 5}} }),
		`jobs: {a: {func: work, priority: -101}}`:                                    job(func(j *jobs.Job) { j.Priority = -101 }),
		`jobs: {a: {func: work, priority: 101}}`:                                     job(func(j *jobs.Job) { j.Priority = 101 }),
		`jobs: {a: {func: work, catch_up: {policy: some}}}`:                          job(func(j *jobs.Job) { j.CatchUp.Policy = "some" }),
		`jobs: {a: {func: work, catch_up: {policy: all, limit: 10001}}}`:             job(func(j *jobs.Job) { j.CatchUp = jobs.CatchUp{Policy: jobs.CatchUpAll, Limit: 10_001} }),
		`jobs: {a: {func: work, labels: {"no blanks": x}}}`:                          job(func(j *jobs.Job) { j.Labels = map[string]string{"no blanks": "x"} }),
		`jobs: {a: {func: work, description: "` + strings.Repeat("x", 5000) + `"}}`:  job(func(j *jobs.Job) { j.Description = strings.Repeat("x", 5000) }),
		`jobs: {a: {schedule: "@daily"}}`:                                            {Jobs: map[string]jobs.Job{"a": {Schedule: "@daily"}}},
		`jobs: {a b: {func: work}}`:                                                  {Jobs: map[string]jobs.Job{"a b": {Handler: work}}},
		`{pools: {p: {}}, jobs: {a: {pool: p, kind: x}}}`:                            {Pools: map[string]jobs.Pool{"p": {}}, Jobs: map[string]jobs.Job{"a": {Pool: "p", Kind: "x"}}},
		`pools: {p: {func: work, workers: 10001}}`:                                   pool(func(p *jobs.Pool) { p.Workers = 10_001 }),
		`pools: {p: {func: work, max_running: 1000001}}`:                             pool(func(p *jobs.Pool) { p.MaxRunning = 1_000_001 }),
		`pools: {p: {func: work, rate: 1000001/s}}`:                                  pool(func(p *jobs.Pool) { p.Rate = jobs.Rate{Count: 1_000_001, Per: time.Second} }),
		`pools: {p: {func: work, rate: 5/500ms}}`:                                    pool(func(p *jobs.Pool) { p.Rate = jobs.Rate{Count: 5, Per: time.Second / 2} }),
		`pools: {p: {func: work, burst: 1000001}}`:                                   pool(func(p *jobs.Pool) { p.Burst = 1_000_001 }),
		`pools: {p: {func: work, rate: 1/h, burst: 8785}}`:                           pool(func(p *jobs.Pool) { p.Rate, p.Burst = jobs.Rate{Count: 1, Per: time.Hour}, 8785 }),
		`pools: {p: {func: work, per_key: {max_running: 1000001}}}`:                  pool(func(p *jobs.Pool) { p.PerKey.MaxRunning = 1_000_001 }),
		`pools: {p: {func: work, per_key: {rate: 1/25h}}}`:                           pool(func(p *jobs.Pool) { p.PerKey.Rate = jobs.Rate{Count: 1, Per: 25 * time.Hour} }),
		`pools: {p: {func: work, per_key: {rate: 1/h, burst: 8785}}}`:                pool(func(p *jobs.Pool) { p.PerKey.Rate, p.PerKey.Burst = jobs.Rate{Count: 1, Per: time.Hour}, 8785 }),
		`pools: {p: {func: work, per_kind: {x: {max_running: 1}}}}`:                  pool(func(p *jobs.Pool) { p.PerKind = map[string]jobs.KindLimits{"x": {MaxRunning: 1}} }),
		`pools: {p: {func: work, order: fifo}}`:                                      pool(func(p *jobs.Pool) { p.Order = "fifo" }),
		`pools: {p: {func: work, pause_on: {failures: 50%, of: 1001}}}`:              pool(func(p *jobs.Pool) { p.PauseOn = jobs.PauseOn{Failures: 50, Of: 1001} }),
		`pools: {p: {func: work, pause_on: {of: 100}}}`:                              pool(func(p *jobs.Pool) { p.PauseOn = jobs.PauseOn{Of: 100} }),
		`pools: {p: {func: work, order: key, per_key: {max_running: 2}}}`:            pool(func(p *jobs.Pool) { p.Order, p.PerKey.MaxRunning = jobs.OrderKey, 2 }),
		`pools: {p: {func: work, timeout: 9000h}}`:                                   pool(func(p *jobs.Pool) { p.Timeout = 9000 * time.Hour }),
		`pools: {p: {func: work, lost_limit: 101}}`:                                  pool(func(p *jobs.Pool) { p.LostLimit = 101 }),
		`pools: {p: {func: work, on_lost: maybe, retries: {limit: 2000}}}`:           pool(func(p *jobs.Pool) { p.OnLost, p.Retries = "maybe", jobs.Retries{Limit: 2000} }),
		`pools: {p: {kinds: {"a b": {func: work}}}}`:                                 {Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"a b": work}}}},
		`name: "a b"`: {Name: "a b"},
	} {
		body, isMap := strings.CutPrefix(text, "{")
		if isMap {
			body = "{version: 1, " + body
		} else {
			body = "version: 1\n" + text
		}
		_, err := config.LoadBytes("a.yaml", []byte(body), config.Options{Funcs: map[string]jobs.Handler{"work": work}})
		var all config.Errors
		if !errors.As(err, &all) {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		var fromYAML, fromGo []string
		for _, e := range all {
			fromYAML = append(fromYAML, e.Path)
		}
		for _, err := range each(set.Validate()) {
			if field, ok := errors.AsType[*jobs.FieldError](err); ok {
				fromGo = append(fromGo, field.Path)
			}
		}
		slices.Sort(fromYAML)
		slices.Sort(fromGo)
		if diff := cmp.Diff(fromGo, fromYAML); diff != "" || len(fromGo) == 0 {
			t.Errorf("%.80s: - Go, + YAML\n%s", text, diff)
		}
	}
}

// each is the parts of a joined error.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
