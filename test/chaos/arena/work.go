//go:build linux

package arena

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// job is a job of the run, and what its attempts do.
type job struct {
	history.Job
	does string // arguments of the ledger's command, or the query of its requests
}

// pool is a pool of the run. What its tasks do is in their payload.
type pool struct {
	history.Pool
	workers int
}

func every(period, offset time.Duration) []history.Every {
	return []history.Every{{Period: period, Offset: offset}}
}

// jobsOfRun are various small jobs: most start each second, some take longer than their period, so that runs wait or are replaced, some ignore
// SIGTERM.
func jobsOfRun() []job {
	s := time.Second
	all := []job{
		{Job: history.Job{Name: "tick-a", Due: every(s, 0)}},
		{Job: history.Job{Name: "tick-b", Due: every(s, 0)}},
		{Job: history.Job{Name: "long", Due: every(5*s, 0), Takes: 5 * s}, does: "-takes 3s -upto 7s"},
		{Job: history.Job{Name: "again", Due: every(7*s, 0), OnLost: "retry", Takes: 2 * s}, does: "-takes 2s"},
		{Job: history.Job{Name: "both", Due: every(2*s, s), Concurrency: "allow", Takes: 3 * s}, does: "-takes 3s"},
		{Job: history.Job{Name: "fenced", Due: every(3*s, 0), OnLost: "retry", Lane: "http", Takes: s}, does: "takes=1s"},
		{Job: history.Job{Name: "all", Due: every(4*s, s), CatchUp: "all"}},
		{Job: history.Job{Name: "none", Due: every(4*s, 2*s), CatchUp: "none"}},
		{Job: history.Job{Name: "twice", Due: append(every(10*s, 0), every(4*s, 0)...)}},
		{Job: history.Job{Name: "flaky", Due: every(5*s, 2*s), Retries: 2}, does: "-fails 1"},
		{Job: history.Job{Name: "ignores-term", Due: every(6*s, 3*s), Takes: 3 * s, Timeout: 2 * s}, does: "-takes 3s -ignore-term"},
		{Job: history.Job{Name: "astray", Due: every(6*s, 0), OnLost: "retry", Takes: 15 * s}, does: "-takes 15s -astray"}, // too long for a drain
		{Job: history.Job{Name: "locked-a", Due: every(5*s, s), Takes: s, Lock: lockOfRun}, does: "-takes 500ms"},
		{Job: history.Job{Name: "queue", Due: every(4*s, 0), Concurrency: "queue", QueueLimit: 2, Takes: 5 * s}, does: "-takes 3s -upto 7s"},
		{Job: history.Job{Name: "queue-two", Due: every(3*s, s), Concurrency: "queue", MaxRunning: 2, QueueLimit: 1, OnLost: "retry", Takes: 6 * s}, does: "-takes 4s -upto 9s"},
		{Job: history.Job{Name: "replace", Due: every(4*s, 2*s), Concurrency: "replace", Takes: 4 * s}, does: "-takes 2s -upto 7s"},
		{Job: history.Job{Name: "replace-two", Due: every(3*s, 2*s), Concurrency: "replace", MaxRunning: 2, OnLost: "retry", Takes: 6 * s}, does: "-takes 4s -upto 9s"},
		{Job: history.Job{Name: "pair", Due: every(2*s, 0), MaxRunning: 2, Takes: 4 * s}, does: "-takes 3s -upto 6s"},
		{Job: history.Job{Name: "closed", Due: every(3*s, 0), Exclude: []string{oddMinutes}}},
		{Job: history.Job{Name: "closed-next", Due: every(7*s, 0), Exclude: []string{oddMinutes}, Next: true}},
		{Job: history.Job{Name: "open", Due: every(4*s, s), Only: []string{evenMinutes}, Jitter: 2 * s, CatchUp: "all"}},
		{Job: history.Job{Name: "jittered", Due: every(4*s, 0), Jitter: 3 * s, OnLost: "retry", Takes: s}, does: "-takes 500ms"},
		{Job: history.Job{Name: "spread", Due: every(5*s, 0), Spread: time.Minute, Jitter: s}},
		{Job: history.Job{Name: editedJob, Due: every(3*s, 0)}},
		{Job: history.Job{Name: "locked-b", Due: every(7*s, 0), OnLost: "retry", Takes: s, Lock: lockOfRun}, does: "-takes 500ms"},
	}
	for i := range all {
		all[i].fill()
	}
	return all
}

// fill sets what a job does not say.
func (o *job) fill() {
	j := &o.Job
	j.Concurrency = cmp.Or(j.Concurrency, "forbid")
	j.OnLost = cmp.Or(j.OnLost, "fail")
	j.Lane = cmp.Or(j.Lane, "exec")
	j.CatchUp = cmp.Or(j.CatchUp, "latest")
	j.Timeout = cmp.Or(j.Timeout, time.Minute)
	j.Grace, j.Window, j.Limit = 3*time.Second, 10*time.Minute, 10
}

// poolOfWorkers is the pool whose tasks workers take over HTTP.
const poolOfWorkers = "hands"

// poolThatFails is paused again and again, as most of its attempts fail.
const poolThatFails = "fragile"

// lockOfRun is what attempts of two jobs and a pool hold, and commands under "locks exec": no two run at once.
const lockOfRun = "ledger"

func poolsOfRun() []pool {
	return []pool{
		{history.Pool{Name: "web", OnLost: "retry", Retries: 3, Lane: "http"}, 8},
		{history.Pool{Name: "command", OnLost: "retry", Retries: 2, Lane: "exec"}, 3},
		{history.Pool{Name: "narrow", OnLost: "retry", Retries: 2, MaxRunning: 2, Lane: "exec"}, 2},
		{history.Pool{Name: "rated", OnLost: "retry", Retries: 2, Rate: 20, Burst: 3, Lane: "http"}, 8},
		{history.Pool{Name: "keyed", OnLost: "retry", Retries: 2, PerKey: 2, KeyRate: 10, KeyBurst: 2, Fair: true, Lane: "http"}, 8},
		{history.Pool{Name: "kinds", OnLost: "retry", Retries: 2, PerKind: map[string]history.Limits{"a": {MaxRunning: 2}, "b": {Rate: 10, Burst: 2}}, Lane: "http"}, 8},
		{history.Pool{Name: "mixed", OnLost: "retry", Retries: 2, PerKey: 2, KeyRate: 15, KeyBurst: 3, PerKind: map[string]history.Limits{"a": {MaxRunning: 2}, "b": {Rate: 10, Burst: 2}}, Lane: "http"}, 8},
		{history.Pool{Name: "ordered", OnLost: "retry", Retries: 2, Ordered: true, Lane: "http"}, 8},
		{history.Pool{Name: "unique", OnLost: "retry", Retries: 2, Unique: true, Lane: "http"}, 8},
		{history.Pool{Name: poolThatFails, OnLost: "retry", Retries: 1, PauseOf: 20, PauseFailures: 30, Lane: "http"}, 4},
		{history.Pool{Name: "once", OnLost: "fail", Lane: "http"}, 4},
		{history.Pool{Name: poolOfWorkers, OnLost: "retry", Retries: 2, MaxRunning: 4, Lane: "worker"}, 1},
		{history.Pool{Name: "turn", OnLost: "retry", Retries: 2, Lane: "exec", Lock: lockOfRun}, 2},
	}
}

// kinds are handlers for the kinds that clients enqueue, and their limits.
func (a *Arena) kinds(limits map[string]history.Limits) string {
	if limits == nil {
		return ""
	}
	var handlers, all []string
	for _, kind := range []string{"a", "b", "c"} {
		handlers = append(handlers, fmt.Sprintf("%s: {http: {url: %q}}", kind, a.ledger.url+"/open"))
	}
	for _, kind := range slices.Sorted(maps.Keys(limits)) {
		l := limits[kind]
		one := fmt.Sprintf("max_running: %d", l.MaxRunning)
		if l.Rate > 0 {
			one += fmt.Sprintf(", rate: %d/s, burst: %d", l.Rate, l.Burst)
		}
		all = append(all, fmt.Sprintf("%s: {%s}", kind, one))
	}
	return "kinds: {" + strings.Join(handlers, ", ") + "}, per_kind: {" + strings.Join(all, ", ") + "}, "
}

// schedule is a due time as the configuration writes it.
func schedule(e history.Every) string {
	period, offset := int(e.Period/time.Second), int(e.Offset/time.Second)
	switch {
	case period == 1:
		return "* * * * * *"
	case 60%period == 0:
		return fmt.Sprintf("%d-59/%d * * * * *", offset, period)
	case offset == 0:
		return fmt.Sprintf("@every %ds", period)
	}
	panic(fmt.Sprintf("no schedule for every %v + %v", e.Period, e.Offset))
}

// configuration is the file of all replicas, in a version.
func (a *Arena) configuration(version int) string {
	var b strings.Builder
	store, lock := a.addresses()
	fmt.Fprintf(&b, `version: 1
%sreplica: {session_ttl: %v, drain_timeout: %v, max_clock_skew: %v, workers: 32}
store: %s
lock: %s
defaults: {stop_grace_period: 1s}
calendars:
`, a.namespace(), SessionTTL, DrainTimeout, MaxClockSkew, store, lock)
	for _, c := range a.calendars {
		fmt.Fprintf(&b, "  %s: {weekly: [%s]}\n", c.Name, quoted(hours(c)))
	}
	b.WriteString("pools:\n")
	for _, p := range poolsOfRun() {
		fmt.Fprintf(&b, "  %s: {workers: %d, on_lost: %s, max_running: %d, timeout: 20s, retries: {limit: %d, backoff: 300ms, max_backoff: 1s}, ",
			p.Name, p.workers, p.OnLost, p.MaxRunning, p.Retries)
		if p.Rate > 0 {
			fmt.Fprintf(&b, "rate: %d/s, burst: %d, ", p.Rate, p.Burst)
		}
		if p.PerKey > 0 {
			fmt.Fprintf(&b, "per_key: {max_running: %d, rate: %d/s, burst: %d}, ", p.PerKey, p.KeyRate, p.KeyBurst)
		}
		if p.Fair {
			b.WriteString("fair: {weights: {a: 2}}, ")
		}
		b.WriteString(a.kinds(p.PerKind))
		if p.PauseOf > 0 {
			fmt.Fprintf(&b, "pause_on: {failures: %d%%, of: %d}, ", p.PauseFailures, p.PauseOf)
		}
		if p.Ordered {
			b.WriteString("order: key, ")
		}
		b.WriteString(locks(p.Lock))
		switch p.Lane {
		case "http":
			fmt.Fprintf(&b, "http: {url: %q}}\n", a.ledger.url+"/open")
		case "worker":
			b.WriteString("worker: {}}\n")
		default:
			fmt.Fprintf(&b, "command: [%q, -file, %q], stop_grace_period: 1s}\n", a.command, a.effects)
		}
	}
	b.WriteString("jobs:\n")
	for _, j := range jobsAt(version) {
		var schedules []string
		for _, due := range j.Due {
			schedules = append(schedules, fmt.Sprintf("%q", schedule(due)))
		}
		fmt.Fprintf(&b, "  %s: {schedules: [%s], concurrency: %s, on_lost: %s, timeout: %v, retries: {limit: %d, backoff: 300ms}, catch_up: {policy: %s, grace: %v, window: %v, limit: %d}, ",
			j.Name, strings.Join(schedules, ", "), j.Concurrency, j.OnLost, j.Timeout, j.Retries, j.CatchUp, j.Grace, j.Window, j.Limit)
		b.WriteString(slots(j.Job) + times(j.Job) + locks(j.Lock))
		if j.Lane == "http" {
			fmt.Fprintf(&b, "http: {url: %q}}\n", a.ledger.url+"/fenced?"+j.does)
		} else {
			words := append([]string{a.command, "-file", a.effects}, strings.Fields(j.does)...)
			fmt.Fprintf(&b, "command: [%s]}\n", quoted(words))
		}
	}
	return b.String()
}

// clusterName is the name in configurations that have one.
const clusterName = "chaos"

// namespace is the line of the configuration that names it. Where locks are not in the store, "locks exec" then asks the lock
// service alone, and beside a store on SQLite it needs a name.
func (a *Arena) namespace() string {
	if len(a.locks) == 0 {
		return ""
	}
	return "name: " + clusterName + "\n"
}

// slots are how many runs of a job are at once, and wait.
func slots(j history.Job) (text string) {
	if j.MaxRunning > 0 {
		text = fmt.Sprintf("max_running: %d, ", j.MaxRunning)
	}
	if j.QueueLimit > 0 {
		text += fmt.Sprintf("queue_limit: %d, ", j.QueueLimit)
	}
	return text
}

func locks(key string) string {
	if key == "" {
		return ""
	}
	return fmt.Sprintf("locks: [%s], ", key)
}

func quoted(words []string) string {
	for i, w := range words {
		words[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(words, ", ")
}
