package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

// says is a handler that does nothing and is described by its text.
type says string

func (says) Run(context.Context, Task, io.Writer) error { return nil }
func (s says) Describe() string                         { return string(s) }

// found returns the problems of err by path.
func found(t *testing.T, err error) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err == nil {
		return all
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v is not a joined error", err)
	}
	for _, one := range joined.Unwrap() {
		var field *FieldError
		if !errors.As(one, &field) || !errors.Is(one, ErrInvalid) {
			t.Fatalf("%v is not a FieldError that is ErrInvalid", one)
		}
		all[field.Path] += field.Problem + "\n"
	}
	return all
}

func TestZeroSetIsValid(t *testing.T) {
	if err := (Set{}).Validate(); err != nil {
		t.Error(err)
	}
	full := Set{
		Name: "prod",
		Pools: map[string]Pool{
			"mail": {Handler: says("h"), Kinds: map[string]Handler{"receipt": says("r")}, Retries: Retries{Limit: NoRetries}},
			"post": {Kinds: map[string]Handler{"letter": says("l")}},
		},
		Jobs: map[string]Job{
			"own":    {Schedule: "0 8 * * MON-FRI", Handler: says("h")},
			"pooled": {Schedules: []string{"@hourly", "@every 5m"}, Timezone: "Europe/London", Pool: "mail", Payload: json.RawMessage(`{"a": 1}`)},
			"kind":   {Pool: "mail", Kind: "receipt", Retries: Retries{Limit: 2, Backoff: time.Hour}, Labels: map[string]string{"team": "infra"}},
			"both":   {Pool: "mail", Handler: says("its own comes first")},
			"kinds":  {Pool: "post", Kind: "letter"},
		},
	}
	if err := full.Validate(); err != nil {
		t.Error(err)
	}
	if err := full.WithDefaults().Validate(); err != nil {
		t.Errorf("with defaults: %v", err)
	}
}

func TestValidateSaysEverythingAtOnce(t *testing.T) {
	h := says("h")
	set := Set{
		Name: "a/b",
		Pools: map[string]Pool{
			"Mail": {Workers: 10_001, MaxRunning: -1, Timeout: -1, OnLost: "perhaps", Retries: Retries{Limit: -2}},
			"mail": {Workers: -1, Kinds: map[string]Handler{"x": nil, "a b": h, "Y": h, "y": h}},
		},
		Jobs: map[string]Job{
			"bad cron":    {Schedule: "60 * * * *", Schedules: []string{"@daily", "0 0 30 2 *"}, Handler: h},
			"zone":        {Schedule: "@daily", Timezone: "Mars/X", Handler: h},
			"Zone":        {Handler: h},
			"pool":        {Pool: "mial"},
			"idle":        {},
			"idle-kind":   {Pool: "mail", Kind: "z"},
			"twice":       {Pool: "mail", Kind: "Y", Handler: h},
			"policies":    {Handler: h, Concurrency: "maybe", OnLost: "no", CatchUp: CatchUp{Policy: "some", Limit: -1, Window: -1, Grace: duration.Max + 1}},
			"replaces":    {Handler: h, Concurrency: "replace", QueueLimit: 5, MaxRunning: 1_000_001},
			"queues":      {Handler: h, Concurrency: "queue", QueueLimit: 1001},
			"allows":      {Handler: h, Concurrency: Allow, MaxRunning: 1},
			"slow":        {Handler: h, Timeout: duration.Max + 1, Retries: Retries{Limit: 1001, Backoff: 2 * time.Hour, MaxBackoff: time.Hour}},
			"payload":     {Handler: h, Payload: json.RawMessage("{")},
			"large":       {Handler: h, Payload: json.RawMessage(`"` + strings.Repeat("x", MaxPayload) + `"`)},
			"deep":        {Handler: h, Payload: json.RawMessage(strings.Repeat("[", 101) + strings.Repeat("]", 101))},
			"description": {Handler: h, Description: "a\x00b"},
			"once":        {Handler: h, Schedules: []string{"@at 2020-01-01T00:00:00Z", "H H * * *"}, EndsAt: monday},
			"bounds":      {Handler: h, Schedule: "@daily", StartsAt: monday, EndsAt: monday},
			"unbound":     {Handler: h, StartsAt: monday, EndsAt: monday.Add(time.Hour)},
			"old":         {Handler: h, Schedule: "@daily", StartsAt: time.Unix(-1, 0), EndsAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
			"spread":      {Handler: h, Schedule: "@daily", Spread: day + time.Second},
			"spread-back": {Handler: h, Schedule: "@daily", Spread: -time.Second},
			"spread-part": {Handler: h, Schedule: "@daily", Spread: 1500 * time.Millisecond},
			"spread-idle": {Handler: h, Spread: time.Minute},
			"spread-at":   {Handler: h, Schedule: " @at 2026-12-24T18:00:00Z", Spread: time.Minute},
			"spread-both": {Handler: h, Schedule: "@at 2026-12-24T18:00:00Z", Schedules: []string{"@daily"}, Spread: time.Minute},
			"labels":      {Handler: h, Labels: map[string]string{"a b": "x", "c": "\n"}, RunsOn: map[string]string{"": "x"}},
		},
	}
	want := map[string]string{
		"name":                          `"a/b" is not a name`,
		"pools.mail":                    "differs from pools.Mail only in capitals",
		"pools.Mail.workers":            "10001 is out of range 0–10000",
		"pools.Mail.max_running":        "-1 is out of range 0–1000000",
		"pools.Mail.timeout":            "is negative",
		"pools.Mail.on_lost":            `"perhaps" is unknown; use fail or retry`,
		"pools.Mail.retries.limit":      "-2 is out of range",
		"pools.mail.workers":            "-1 is out of range",
		"pools.mail.kinds.x":            "has no handler",
		"pools.mail.kinds.a b":          "is not a name",
		"pools.mail.kinds.y":            "differs from pools.mail.kinds.Y only in capitals",
		"jobs.bad cron":                 "is not a name",
		"jobs.bad cron.schedule":        "minute: 60 is out of range 0–59",
		"jobs.bad cron.schedules[1]":    "would never fire",
		"jobs.zone":                     "differs from jobs.Zone only in capitals",
		"jobs.zone.timezone":            `unknown time zone "Mars/X"`,
		"jobs.spread.spread":            "24h0m1s is out of range 1s–24h0m0s",
		"jobs.spread-back.spread":       "-1s is out of range",
		"jobs.spread-part.spread":       "1.5s is not a whole number of seconds",
		"jobs.spread-idle.spread":       "has no effect, as the job has no schedule but @at",
		"jobs.spread-at.spread":         "has no effect, as the job has no schedule but @at",
		"jobs.pool.pool":                `there is no pool "mial"; defined are default, Mail, mail`,
		"jobs.idle":                     "neither it nor its pool default has a handler",
		"jobs.idle-kind.kind":           `pool mail has no kind "z"; it has Y, a b, x, y`,
		"jobs.twice.kind":               "the job has a handler of its own",
		"jobs.policies.concurrency":     `"maybe" is unknown; use forbid or allow or queue or replace`,
		"jobs.policies.on_lost":         `"no" is unknown`,
		"jobs.policies.catch_up.policy": `"some" is unknown; use none or latest or all`,
		"jobs.policies.catch_up.limit":  "out of range",
		"jobs.policies.catch_up.window": "is negative",
		"jobs.policies.catch_up.grace":  "is longer than a year",
		"jobs.replaces.queue_limit":     "has no effect without concurrency: queue",
		"jobs.replaces.max_running":     "1000001 is out of range 0–1000000",
		"jobs.queues.queue_limit":       "1001 is out of range 0–1000",
		"jobs.allows.max_running":       "has no effect with concurrency: allow",
		"jobs.slow.timeout":             "is longer than a year",
		"jobs.slow.retries.limit":       "1001 is out of range 0–1000",
		"jobs.slow.retries.backoff":     "2h0m0s is longer than max_backoff, 1h0m0s",
		"jobs.payload.payload":          "not valid JSON",
		"jobs.large.payload":            "at most 262144 are allowed",
		"jobs.deep.payload":             "nested deeper than 100",
		"jobs.description.description":  "must be at most",
		"jobs.bounds.ends_at":           "2026-06-01T00:00:00Z is not after starts_at, 2026-06-01T00:00:00Z; the job would never be due",
		"jobs.unbound.starts_at":        "has no effect, as the job has no schedule; remove it",
		"jobs.unbound.ends_at":          "has no effect, as the job has no schedule; remove it",
		"jobs.old.starts_at":            "1969 is out of range 1970–9999 for its year",
		"jobs.old.ends_at":              "10000 is out of range 1970–9999 for its year",
		"jobs.labels.labels.a b":        "is not a name",
		"jobs.labels.labels.c":          "printable text",
		"jobs.labels.runs_on.":          "is missing",
	}
	err := set.Validate()
	got := found(t, err)
	for path, says := range want {
		if !strings.Contains(got[path], says) {
			t.Errorf("%s: got %q, want something with %q", path, got[path], says)
		}
		delete(got, path)
	}
	for path, problem := range got {
		t.Errorf("unexpected: %s: %s", path, problem)
	}
	for range 5 {
		if diff := cmp.Diff(err.Error(), set.Validate().Error()); diff != "" {
			t.Fatalf("the order changes:\n%s", diff)
		}
	}
}

func TestNamesThatAreNone(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("a", 65), "../x", "a/b", "a b", "🙂", "-a", ".a", "_a", "a\n", "ä"} {
		if err := (Set{Jobs: map[string]Job{name: {Handler: says("h")}}}).Validate(); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
	for _, name := range []string{"a", "0", "nightly-backup", "A.b_c-d", strings.Repeat("a", 64)} {
		if err := (Set{Jobs: map[string]Job{name: {Handler: says("h")}}}).Validate(); err != nil {
			t.Errorf("the name %q was refused: %v", name, err)
		}
	}
}

// What people read: which field it is, what is wrong, and what to do.
func TestValidateSaysWhatToDo(t *testing.T) {
	h := says("h")
	many := map[string]Pool{}
	for i := range 10 {
		many[fmt.Sprint("p", i)] = Pool{}
	}
	for want, set := range map[string]Set{
		`pools.Mail: differs from pools.MAIL only in capitals; names must be unique without regard to case
pools.mail: differs from pools.MAIL only in capitals; names must be unique without regard to case`: {Pools: map[string]Pool{"MAIL": {}, "Mail": {}, "mail": {}}},
		`pools.Default: differs from the built-in pool default only in capitals; write default to set its limits, or give this pool another name
pools.NOTIFICATIONS: differs from the built-in pool notifications only in capitals; write notifications to set its limits, or give this pool another name`: {Pools: map[string]Pool{"Default": {}, "NOTIFICATIONS": {}}},
		`pools.default: differs from pools.Default only in capitals; names must be unique without regard to case`:                                                 {Pools: map[string]Pool{"Default": {}, "default": {}}},
		`jobs.j.pool: there is no pool "mial"; defined are default`:                                                                                               {Jobs: map[string]Job{"j": {Pool: "mial"}}},
		`jobs.j.pool: there is no pool "mial"; defined are default, mail`:                                                                                         {Jobs: map[string]Job{"j": {Pool: "mial"}}, Pools: map[string]Pool{"mail": {}, "default": {}}},
		`jobs.j.pool: there is no pool "mial"; defined are default, p0, p1, p2, p3, p4, p5, p6, p7, p8 and 1 more`:                                                {Jobs: map[string]Job{"j": {Pool: "mial"}}, Pools: many},
		`jobs.j.pool: notifications is for notifications alone; use another pool`:                                                                                 {Jobs: map[string]Job{"j": {Pool: naming.NotificationsPool}}},
		`jobs.j: has nothing to do: neither it nor its pool default has a handler; give it a Handler, or the Kind of one that its pool has`:                       {Jobs: map[string]Job{"j": {}}},
		`jobs.j.kind: pool mail has no kind "x"; it has none`:                                                                                                     {Jobs: map[string]Job{"j": {Pool: "mail", Kind: "x"}}, Pools: map[string]Pool{"mail": {Handler: h}}},
		`jobs.j.kind: chooses among the handlers of pool mail, but the job has a handler of its own; remove one of them`:                                          {Jobs: map[string]Job{"j": {Pool: "mail", Kind: "x", Handler: h}}, Pools: map[string]Pool{"mail": {Kinds: map[string]Handler{"x": h}}}},
		`jobs.j.max_running: has no effect with concurrency: allow, which lets any number run at once; remove it, or write concurrency: forbid, queue or replace`: {Jobs: map[string]Job{"j": {Handler: h, Concurrency: Allow, MaxRunning: 2}}},
		`jobs.j.runs_on: "zone" is "a", and the replicas of its pool have "b": none has both; change one of them, or give the job another pool`:                   {Jobs: map[string]Job{"j": {Handler: h, Pool: "p", RunsOn: map[string]string{"zone": "a"}}}, Pools: map[string]Pool{"p": {RunsOn: map[string]string{"zone": "b"}}}},
		`pools.p.runs_on: is for replicas, and workers over HTTP run tasks of the pool; remove it, or move what needs it to another pool`:                         {Pools: map[string]Pool{"p": {Handler: Worker{}, RunsOn: map[string]string{"zone": "b"}}}},
		`jobs.j.queue_limit: has no effect without concurrency: queue; write that, or remove it`:                                                                  {Jobs: map[string]Job{"j": {Handler: h, QueueLimit: 10}}},
		`jobs.j.on_lost: "perhaps" is unknown; use fail or retry`:                                                                                                 {Jobs: map[string]Job{"j": {Handler: h, OnLost: "perhaps"}}},
		`jobs.j.priority: 101 is out of range −100…100; larger ones are claimed first, and 0 is the default`:                                                      {Jobs: map[string]Job{"j": {Handler: h, Priority: 101}}},
		`jobs.j.priority: -101 is out of range −100…100; larger ones are claimed first, and 0 is the default`:                                                     {Jobs: map[string]Job{"j": {Handler: h, Priority: -101}}},
		`jobs.j.timeout: -1s is negative; leave it out for the default`:                                                                                           {Jobs: map[string]Job{"j": {Handler: h, Timeout: -time.Second}}},
		`jobs.j.retries.backoff: 1s is longer than max_backoff, 500ms; make it shorter, or max_backoff longer`:                                                    {Jobs: map[string]Job{"j": {Handler: h, Retries: Retries{MaxBackoff: 500 * time.Millisecond}}}},
		`jobs.j.timezone: unknown time zone "Mars/X"; use an IANA name with its capitals, as in Europe/London
jobs.j.schedule: hour: 25 is out of range 0–23`: {Jobs: map[string]Job{"j": {Handler: h, Timezone: "Mars/X", Schedule: "0 25 * * *"}}},
		`jobs.j.schedules[1]: minute: 60 is out of range 0–59; hour: 25 is out of range 0–23`:                     {Jobs: map[string]Job{"j": {Handler: h, Schedules: []string{"@daily", "60 25 * * *"}}}},
		`jobs.j.schedules[0]: the expression is empty; leave the schedule out for a job that runs on demand only`: {Jobs: map[string]Job{"j": {Handler: h, Schedules: []string{""}}}},
		`jobs.j.description: must be at most 4096 bytes of text`:                                                  {Jobs: map[string]Job{"j": {Handler: h, Description: "\xff"}}},
		`jobs.j.labels.: is missing
jobs.j.labels.team: must be at most 255 bytes of printable text`: {Jobs: map[string]Job{"j": {Handler: h, Labels: map[string]string{"team": "\x1b[0m", "": "x"}}}},
		`jobs.j.notify: names events and no way to send them; give it a Handler`:                                                                                             {Jobs: map[string]Job{"j": {Handler: h, Notify: Notify{On: events[:1]}}}},
		`jobs.j.notify.on[1]: "nothing" is unknown; use failed or missed or lost or recovered or paused or suspended or late or started or succeeded`:                        {Jobs: map[string]Job{"j": {Handler: h, Notify: Notify{Handler: h, On: []Event{EventLost, ""}}}}},
		`jobs.j.expect.finish_within: 1m0s is no more than start_within, 1m0s, so a run that starts in time could not end in time`:                                           {Jobs: map[string]Job{"j": {Handler: h, Expect: Expect{time.Minute, time.Minute}}}},
		`jobs.j.expect.start_within: 999ms is less than a second, which is how exactly it is looked at; write 1s or more`:                                                    {Jobs: map[string]Job{"j": {Handler: h, Expect: Expect{StartWithin: 999 * time.Millisecond}}}},
		`jobs.j.notify.on[2]: "lost" is given twice; remove one`:                                                                                                             {Jobs: map[string]Job{"j": {Handler: h, Notify: Notify{Handler: h, On: []Event{EventLost, EventMissed, EventLost}}}}},
		`pools.notifications: sends what notify of jobs and pools asks for, and nothing else; only its limits can be set, so remove what it does, or give it another name`:   {Pools: map[string]Pool{naming.NotificationsPool: {Handler: h}}},
		`pools.notifications: sends what notify of jobs and pools asks for, and nothing else; only its limits can be set, so remove what it does, or give it another name `:  {Pools: map[string]Pool{naming.NotificationsPool: {Kinds: map[string]Handler{"k": h}}}},
		`pools.notifications: sends what notify of jobs and pools asks for, and nothing else; only its limits can be set, so remove what it does, or give it another name  `: {Pools: map[string]Pool{naming.NotificationsPool: {Notify: Notify{Handler: h}}}},
	} {
		if d := cmp.Diff(strings.TrimRight(want, " "), text(set.Validate())); d != "" {
			t.Error(d)
		}
	}
}
