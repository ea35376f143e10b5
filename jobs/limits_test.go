package jobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

// text is what an error says; empty for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is as large as it may be is taken, and one more is refused with its limit.
func TestLimitsOfDefinitions(t *testing.T) {
	h := says("h")
	job := func(change func(j *Job, n int)) func(n int) Set {
		return func(n int) Set {
			j := Job{Handler: h}
			change(&j, n)
			return Set{Jobs: map[string]Job{"j": j}}
		}
	}
	pool := func(change func(p *Pool, n int)) func(n int) Set {
		return func(n int) Set {
			p := Pool{}
			change(&p, n)
			return Set{Pools: map[string]Pool{"p": p}}
		}
	}
	labels := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("l", i)] = "v"
		}
		return all
	}
	const year = "8784h0m0.000000001s is longer than a year"
	for _, c := range []struct {
		limit int
		with  func(n int) Set
		says  string
	}{
		{limits.Workers, pool(func(p *Pool, n int) { p.Workers = n }), "pools.p.workers: 10001 is out of range 0–10000"},
		{limits.MaxRunning, pool(func(p *Pool, n int) { p.MaxRunning = n }), "pools.p.max_running: 1000001 is out of range 0–1000000"},
		{limits.Rate, pool(func(p *Pool, n int) { p.Rate = Rate{n, time.Second} }), "pools.p.rate: the number is out of range; allowed: 1 to 1000000"},
		{int(limits.RatePerMost), pool(func(p *Pool, n int) { p.Rate = Rate{1, time.Duration(n)} }), "pools.p.rate: the time is out of range; allowed: 1s to 24h"},
		{limits.Burst, pool(func(p *Pool, n int) { p.Burst = n }), "pools.p.burst: 1000001 is out of range 0–1000000"},
		{limits.Burst, pool(func(p *Pool, n int) { p.Rate, p.Burst = Rate{50, time.Second}, n }), "pools.p.burst: 1000001 is out of range 0–1000000"},
		{366, pool(func(p *Pool, n int) { p.Rate, p.Burst = Rate{1, 24 * time.Hour}, n }), "pools.p.burst: 367 takes longer than a year to fill at 1/d; use at most 366"},
		{limits.MaxRunning, pool(func(p *Pool, n int) { p.PerKey.MaxRunning = n }), "pools.p.per_key.max_running: 1000001 is out of range 0–1000000"},
		{limits.Rate, pool(func(p *Pool, n int) { p.PerKey.Rate = Rate{n, time.Second} }), "pools.p.per_key.rate: the number is out of range; allowed: 1 to 1000000"},
		{int(limits.RatePerMost), pool(func(p *Pool, n int) { p.PerKey.Rate = Rate{1, time.Duration(n)} }), "pools.p.per_key.rate: the time is out of range; allowed: 1s to 24h"},
		{limits.Burst, pool(func(p *Pool, n int) { p.PerKey.Burst = n }), "pools.p.per_key.burst: 1000001 is out of range 0–1000000"},
		{366, pool(func(p *Pool, n int) { p.PerKey = KeyLimits{Rate: Rate{1, 24 * time.Hour}, Burst: n} }), "pools.p.per_key.burst: 367 takes longer than a year to fill at 1/d; use at most 366"},
		{100, pool(func(p *Pool, n int) { p.PauseOn = PauseOn{n, 10} }), "pools.p.pause_on.failures: 101 is out of range 1–100"},
		{limits.PauseOn, pool(func(p *Pool, n int) { p.PauseOn = PauseOn{50, n} }), "pools.p.pause_on.of: 1001 is out of range 1–1000"},
		{1, pool(func(p *Pool, n int) { p.Order, p.PerKey.MaxRunning = OrderKey, n }), "pools.p.per_key.max_running: with order: key the tasks of one key run one after the other; remove it, or write order: none"},
		{limits.Retries, pool(func(p *Pool, n int) { p.Retries = Retries{Limit: n} }), "pools.p.retries.limit: 1001 is out of range 0–1000"},
		{limits.LostLimit, pool(func(p *Pool, n int) { p.LostLimit = n }), "pools.p.lost_limit: 101 is out of range 0–100"},
		{limits.LostLimit, job(func(j *Job, n int) { j.LostLimit = n }), "jobs.j.lost_limit: 101 is out of range 0–100"},
		{limits.Description, pool(func(p *Pool, n int) { p.Description = strings.Repeat("d", n) }), "pools.p.description: must be at most 4096 bytes of text"},
		{int(duration.Max), pool(func(p *Pool, n int) { p.Timeout = time.Duration(n) }), "pools.p.timeout: " + year},
		{limits.Retries, job(func(j *Job, n int) { j.Retries.Limit = n }), "jobs.j.retries.limit: 1001 is out of range 0–1000"},
		{int(duration.Max), job(func(j *Job, n int) { j.Retries.Backoff = time.Duration(n) }), "jobs.j.retries.backoff: " + year},
		{int(duration.Max), job(func(j *Job, n int) { j.Retries.MaxBackoff = time.Duration(n) }), "jobs.j.retries.max_backoff: " + year},
		{int(2 * time.Hour), job(func(j *Job, n int) { j.Retries = Retries{Backoff: time.Duration(n), MaxBackoff: 2 * time.Hour} }), "jobs.j.retries.backoff: 2h0m0.000000001s is longer than max_backoff, 2h0m0s; make it shorter, or max_backoff longer"},
		{int(duration.Max), job(func(j *Job, n int) { j.Timeout = time.Duration(n) }), "jobs.j.timeout: " + year},
		{int(duration.Max), job(func(j *Job, n int) { j.CatchUp.Window = time.Duration(n) }), "jobs.j.catch_up.window: " + year},
		{int(duration.Max), job(func(j *Job, n int) { j.CatchUp.Grace = time.Duration(n) }), "jobs.j.catch_up.grace: " + year},
		{limits.CatchUp, job(func(j *Job, n int) { j.CatchUp.Limit = n }), "jobs.j.catch_up.limit: 10001 is out of range 0–10000"},
		{limits.Description, job(func(j *Job, n int) { j.Description = "of\n\ttwo lines" + strings.Repeat("d", n-13) }), "jobs.j.description: must be at most 4096 bytes of text"},
		{limits.Labels, job(func(j *Job, n int) { j.Labels = labels(n) }), "jobs.j.labels: 65 labels, at most 64 are allowed"},
		{limits.Labels, job(func(j *Job, n int) { j.RunsOn = labels(n) }), "jobs.j.runs_on: 65 labels, at most 64 are allowed"},
		{255, job(func(j *Job, n int) { j.Labels = map[string]string{"team": strings.Repeat("v", n)} }), "jobs.j.labels.team: must be at most 255 bytes of printable text"},
		{100, job(func(j *Job, n int) { j.Schedules = strings.Split(strings.Repeat("@daily,", n-1)+"@daily", ",") }), "jobs.j.schedules: 101 schedules, at most 100 are allowed"},
		{99, job(func(j *Job, n int) {
			j.Schedule, j.Schedules = "@hourly", strings.Split(strings.Repeat("@daily,", n-1)+"@daily", ",")
		}), "jobs.j.schedules: 101 schedules, at most 100 are allowed"},
		{256, job(func(j *Job, n int) { j.Schedule = "@daily" + strings.Repeat(" ", n-6) }), "jobs.j.schedule: the expression has 257 bytes, at most 256 are allowed; use several schedules"},
		{MaxPayload, job(func(j *Job, n int) { j.Payload = json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }), "jobs.j.payload: 262145 bytes, at most 262144 are allowed; store it elsewhere and pass its name"},
		{limits.PayloadDepth, job(func(j *Job, n int) { j.Payload = json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n)) }), "jobs.j.payload: nested deeper than 100; make it flatter"},
	} {
		if err := c.with(c.limit).Validate(); err != nil {
			t.Errorf("at its limit: %v", err)
		}
		if got := text(c.with(c.limit + 1).Validate()); got != c.says {
			t.Errorf("beyond its limit: got %s\nwant %s", got, c.says)
		}
	}
}

// What is as small as it may be is taken, and one less is refused. A burst is not measured by a rate that is wrong.
func TestLeastRates(t *testing.T) {
	const number, per = "pools.p.rate: the number is out of range; allowed: 1 to 1000000", "pools.p.rate: the time is out of range; allowed: 1s to 24h"
	for _, c := range []struct {
		pool Pool
		says string
	}{
		{Pool{Rate: Rate{1, time.Second}}, ""},
		{Pool{Rate: Rate{0, time.Second}}, number},
		{Pool{Rate: Rate{-1, time.Second}}, number},
		{Pool{Rate: Rate{1, time.Second - 1}}, per},
		{Pool{Rate: Rate{Count: 1}}, per},
		{Pool{Rate: Rate{1, -time.Second}}, per},
		{Pool{Rate: Rate{Count: 1}, Burst: -1}, per},
		{Pool{Burst: -1}, "pools.p.burst: -1 is out of range 0–1000000"},
		{Pool{Rate: Rate{1, 24 * time.Hour}, Burst: -1}, "pools.p.burst: -1 is out of range 0–1000000"},
		{Pool{Rate: Rate{1, 24 * time.Hour}, Burst: 1_000_001}, "pools.p.burst: 1000001 takes longer than a year to fill at 1/d; use at most 366"},
	} {
		if got := text(Set{Pools: map[string]Pool{"p": c.pool}}.Validate()); got != c.says {
			t.Errorf("%s, burst %d: got %s\nwant %s", c.pool.Rate, c.pool.Burst, got, c.says)
		}
	}
}

func TestLimitsOfTasks(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 12, 31, 0, 0, 0, 0, time.UTC) }
	tags := func(n int) []string { return strings.Split(strings.Repeat("t,", n-1)+"t", ",") }
	for _, c := range []struct {
		most, more NewTask
		says       string
	}{
		{NewTask{Priority: 100}, NewTask{Priority: 101}, "priority: 101 is out of range −100…100"},
		{NewTask{Priority: -100}, NewTask{Priority: -101}, "priority: -101 is out of range −100…100"},
		{NewTask{RunAt: year(1971)}, NewTask{RunAt: year(1970)}, "run_at: year 1970 is out of range 1971–9998"},
		{NewTask{RunAt: year(9998)}, NewTask{RunAt: year(9999)}, "run_at: year 9999 is out of range 1971–9998"},
		{NewTask{ExpiresAt: year(1971)}, NewTask{ExpiresAt: year(1970)}, "expires_at: year 1970 is out of range 1971–9998"},
		{NewTask{ExpiresAt: year(9998)}, NewTask{ExpiresAt: year(9999)}, "expires_at: year 9999 is out of range 1971–9998"},
		{NewTask{RunAt: year(1999), ExpiresAt: year(1999).Add(time.Microsecond)}, NewTask{RunAt: year(1999), ExpiresAt: year(1999)}, "expires_at: must be later than run_at"},
		{NewTask{RunAt: year(1999).Add(999), ExpiresAt: year(1999).Add(time.Microsecond)}, NewTask{RunAt: year(1999), ExpiresAt: year(1999).Add(999)}, "expires_at: must be later than run_at"},
		{NewTask{MaxAttempts: 1}, NewTask{MaxAttempts: -1}, "max_attempts: -1 is out of range 1–1001"},
		{NewTask{MaxAttempts: 1001}, NewTask{MaxAttempts: 1002}, "max_attempts: 1002 is out of range 1–1001"},
		{NewTask{Timeout: time.Millisecond}, NewTask{Timeout: time.Millisecond - 1}, "timeout: 999.999µs is out of range 1ms–366d"},
		{NewTask{Timeout: 366 * 24 * time.Hour}, NewTask{Timeout: 366*24*time.Hour + 1}, "timeout: 8784h0m0.000000001s is out of range 1ms–366d"},
		{NewTask{Backoff: time.Millisecond}, NewTask{Backoff: -time.Second}, "backoff: -1s is out of range 1ms–366d"},
		{NewTask{IdempotencyKey: strings.Repeat("k", 255)}, NewTask{IdempotencyKey: strings.Repeat("k", 256)}, "idempotency_key: must be at most 255 bytes of printable text"},
		{NewTask{IdempotencyKey: "ключ"}, NewTask{IdempotencyKey: "\xff"}, "idempotency_key: must be at most 255 bytes of printable text"},
		{NewTask{Key: strings.Repeat("k", 128)}, NewTask{Key: strings.Repeat("k", 129)}, "key: must be at most 128 bytes of printable text"},
		{NewTask{Key: strings.Repeat("ü", 64)}, NewTask{Key: strings.Repeat("ü", 65)}, "key: must be at most 128 bytes of printable text"},
		{NewTask{Key: "ключ 7/a"}, NewTask{Key: "a\nb"}, "key: must be at most 128 bytes of printable text"},
		{NewTask{Key: ""}, NewTask{Key: "a\x00"}, "key: must be at most 128 bytes of printable text"},
		{NewTask{Key: "a"}, NewTask{Key: "\xff"}, "key: must be at most 128 bytes of printable text"},
		{NewTask{By: strings.Repeat("b", 255)}, NewTask{By: strings.Repeat("b", 256)}, "by: must be at most 255 bytes of printable text"},
		{NewTask{By: "amy"}, NewTask{By: "a\nb"}, "by: must be at most 255 bytes of printable text"},
		{NewTask{Tags: tags(20)}, NewTask{Tags: tags(21)}, "tags: 21 tags, at most 20 are allowed"},
		{NewTask{Tags: []string{strings.Repeat("t", 64)}}, NewTask{Tags: []string{strings.Repeat("t", 65)}}, "tags[0]: must be 1 to 64 bytes of printable text"},
		{NewTask{Tags: []string{"t"}}, NewTask{Tags: []string{"t", ""}}, "tags[1]: must be 1 to 64 bytes of printable text"},
		{NewTask{Payload: json.RawMessage(`"ü"`)}, NewTask{Payload: json.RawMessage("\"\xff\"")}, "payload: not valid UTF-8"},
		{NewTask{Payload: json.RawMessage(`[1]`)}, NewTask{Payload: json.RawMessage("[1")}, "payload: not valid JSON"},
		{NewTask{}, NewTask{Payload: func() {}}, "payload: cannot be written as JSON: json: unsupported type: func()"},
		{NewTask{Kind: "k"}, NewTask{Kind: "a b"}, `kind: "a b" is not a name; use letters, digits and . _ -, a letter or digit first, at most 64`},
	} {
		c.most.Pool, c.more.Pool = "mail", "mail"
		if _, err := c.most.Encode(); err != nil {
			t.Errorf("at its limit: %v", err)
		}
		if _, err := c.more.Encode(); text(err) != c.says {
			t.Errorf("beyond its limit: got %v\nwant %s", err, c.says)
		}
	}
}
