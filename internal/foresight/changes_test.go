package foresight

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// acting is a handler that shows some of what it is.
type acting struct{ shown, secret string }

func (acting) Run(context.Context, jobs.Task, io.Writer) error { return nil }
func (a acting) Describe() string                              { return a.shown }
func (a acting) Identity() string                              { return a.shown + a.secret }

// fieldsText has one line for each field.
func fieldsText(all []FieldChange) (text string) {
	for _, f := range all {
		text += fmt.Sprintf("%s: %q → %q", f.Field, f.Old, f.New)
		if f.Hidden {
			text += " hidden"
		}
		text += "\n"
	}
	return text
}

// Settings that differ are named as in the file, with their values, and without what may be secret.
func TestSettingsThatDiffer(t *testing.T) {
	const secret = "swordfish"
	moment := time.Date(2026, 12, 1, 1, 0, 0, 0, time.FixedZone("", 3600))
	for name, c := range map[string]struct {
		old, now any
		want     string
	}{
		"nothing":           {jobs.Job{Schedule: "@daily"}.WithDefaults(), jobs.Job{Schedule: "@daily", Timezone: "UTC", Timeout: 24 * time.Hour}.WithDefaults(), ""},
		"a duration":        {jobs.Job{Timeout: time.Hour}, jobs.Job{Timeout: 90 * time.Minute}, `timeout: "1h0m0s" → "1h30m0s"` + "\n"},
		"a nested one":      {jobs.Job{}, jobs.Job{CatchUp: jobs.CatchUp{Window: time.Hour, Limit: 2}}, `catch_up.window: "" → "1h0m0s"` + "\n" + `catch_up.limit: "" → "2"` + "\n"},
		"texts, in order":   {jobs.Job{Description: "a", Pool: "p"}, jobs.Job{Description: "b", Pool: "q"}, `description: "a" → "b"` + "\n" + `pool: "p" → "q"` + "\n"},
		"a list":            {jobs.Job{Schedules: []string{"@daily"}}, jobs.Job{Schedules: []string{"@daily", "@hourly"}}, `schedules: "@daily" → "@daily, @hourly"` + "\n"},
		"an empty list":     {jobs.Notify{}, jobs.Notify{On: []jobs.Event{}}, `on: "" → "[]"` + "\n"},
		"a moment":          {jobs.Job{StartsAt: moment}, jobs.Job{EndsAt: moment}, `starts_at: "2026-12-01T00:00:00Z" → ""` + "\n" + `ends_at: "" → "2026-12-01T00:00:00Z"` + "\n"},
		"the same moment":   {jobs.Job{StartsAt: moment}, jobs.Job{StartsAt: moment.UTC()}, ""},
		"labels":            {jobs.Job{Labels: map[string]string{"a": "1", "b": "2"}}, jobs.Job{Labels: map[string]string{"b": "3", "c": ""}}, `labels.a: "1" → ""` + "\n" + `labels.b: "2" → "3"` + "\n" + `labels.c: "" → "{}"` + "\n"},
		"a truth":           {jobs.Job{}, jobs.Job{Suspend: true}, `suspend: "" → "true"` + "\n"},
		"a lock":            {jobs.Job{Locks: []jobs.Lock{{Key: "a"}, {Key: "b"}}}, jobs.Job{Locks: []jobs.Lock{{Key: "a"}, {Key: "b", Limit: 3}}}, `locks[1].limit: "" → "3"` + "\n"},
		"a rate":            {jobs.Pool{Rate: jobs.Rate{Count: 5, Per: time.Second}}, jobs.Pool{}, `rate: "5/s" → ""` + "\n"},
		"a pointer":         {jobs.Pool{}, jobs.Pool{Fair: &jobs.Fair{}}, `fair: "" → "{}"` + "\n"},
		"behind a pointer":  {jobs.Pool{Fair: &jobs.Fair{}}, jobs.Pool{Fair: &jobs.Fair{Weights: map[string]int{"big": 3}}}, `fair: "{}" → ""` + "\n" + `fair.weights.big: "" → "3"` + "\n"},
		"limits of a kind":  {jobs.Pool{}, jobs.Pool{PerKind: map[string]jobs.KindLimits{"x": {MaxRunning: 2}}}, `per_kind.x.max_running: "" → "2"` + "\n"},
		"a handler":         {jobs.Job{Handler: acting{"run a", secret}}, jobs.Job{Handler: acting{"run b", secret}}, `handler: "run a" → "run b"` + "\n"},
		"a secret of it":    {jobs.Job{Handler: acting{"run a", secret}}, jobs.Job{Handler: acting{"run a", secret + "2"}}, `handler: "run a" → "run a" hidden` + "\n"},
		"a payload":         {jobs.Job{Payload: secret}, jobs.Job{Payload: secret + "2"}, `payload: "" → "" hidden` + "\n"},
		"a payload is new":  {jobs.Job{}, jobs.Job{Payload: map[string]any{"password": secret}}, `payload: "" → "" hidden` + "\n"},
		"a stringer inside": {jobs.Job{}, jobs.Job{Payload: time.Second}, `payload: "" → "" hidden` + "\n"},
		"kinds":             {jobs.Pool{Kinds: map[string]jobs.Handler{"x": acting{"run x", ""}}}, jobs.Pool{Kinds: map[string]jobs.Handler{"y": acting{"run y", ""}}}, `kinds.x: "run x" → ""` + "\n" + `kinds.y: "" → "run y"` + "\n"},
	} {
		got := fieldsText(Differences(c.old, c.now))
		if got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
		if strings.Contains(got, secret) {
			t.Errorf("%s: a secret is shown: %s", name, got)
		}
	}
}

func TestNamesOfSettings(t *testing.T) {
	for name, want := range map[string]string{"MaxRunning": "max_running", "DSN": "dsn", "SessionTTL": "session_ttl", "TTL": "ttl", "ID": "id", "On": "on", "HTTPProxy": "http_proxy"} {
		if got := snake(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// Due times are new, gone, or moved, if as many are new as are gone.
func TestDueTimesThatChange(t *testing.T) {
	set := func(all map[string]jobs.Job) jobs.Set { return jobs.Set{Jobs: all} }
	of := func(j jobs.Job) jobs.Set { return set(map[string]jobs.Job{"j": j}) }
	every := func(spec string) jobs.Job { return jobs.Job{Schedule: spec} }
	show := func(d DueChange) string {
		text := fmt.Sprintf("new %d, gone %d, moved %d", d.New, d.Gone, d.Moved)
		for _, one := range d.Times {
			clock := func(t time.Time) string {
				if t.IsZero() {
					return ""
				}
				return t.Format("02T15:04")
			}
			text += " " + clock(one.Old) + ">" + clock(one.New)
		}
		return text
	}
	from, to := start, start.Add(24*time.Hour)
	for name, c := range map[string]struct {
		old, now jobs.Set
		want     string
	}{
		"nothing":              {of(every("@hourly")), of(every("@hourly")), ""},
		"another timeout":      {of(every("@hourly")), of(jobs.Job{Schedule: "@hourly", Timeout: time.Hour}), ""},
		"added":                {set(nil), of(every("0 */8 * * *")), "new 3, gone 0, moved 0 >28T16:00 >29T00:00"},
		"removed":              {of(every("0 */8 * * *")), set(nil), "new 0, gone 3, moved 0 28T16:00> 29T00:00>"},
		"moved":                {of(every("30 2,3 * * *")), of(every("45 2,3 * * *")), "new 0, gone 0, moved 2 29T02:30>29T02:45 29T03:30>29T03:45"},
		"one of them moved":    {of(every("30 2,3 * * *")), of(every("30 2,4 * * *")), "new 0, gone 0, moved 1 29T03:30>29T04:30"},
		"another zone":         {of(every("30 4 * * *")), of(jobs.Job{Schedule: "30 4 * * *", Timezone: "Europe/London"}), "new 0, gone 0, moved 1 29T04:30>29T03:30"},
		"more often":           {of(every("0 */8 * * *")), of(every("0 */4 * * *")), "new 3, gone 0, moved 0 >28T20:00 >29T04:00"},
		"new and gone":         {of(every("0 13 * * *")), of(every("0 12,14,15 * * *")), "new 3, gone 1, moved 0 28T13:00> >28T14:00"},
		"suspended":            {of(every("0 */8 * * *")), of(jobs.Job{Schedule: "0 */8 * * *", Suspend: true}), "new 0, gone 3, moved 0 28T16:00> 29T00:00>"},
		"resumed":              {of(jobs.Job{Schedule: "0 */8 * * *", Suspend: true}), of(every("0 */8 * * *")), "new 3, gone 0, moved 0 >28T16:00 >29T00:00"},
		"beyond the day":       {of(every("0 12 31 * *")), of(every("0 13 31 * *")), ""},
		"the edges":            {set(nil), of(jobs.Job{Schedules: []string{"@at 2026-03-28T12:00:00Z", "@at 2026-03-29T12:00:00Z"}}), "new 1, gone 0, moved 0 >29T12:00"},
		"spelled otherwise":    {of(every("0  0 * * *")), of(every("0 0 * * *")), ""},
		"no schedule any more": {of(every("0 13 * * *")), of(jobs.Job{}), "new 0, gone 1, moved 0 28T13:00>"},
	} {
		got, err := Compare(c.old, c.now, from, to, 2)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, d := range got.Due {
			text += show(d)
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
	// Of a job with more due times than are compared, those are counted that both lists cover.
	got, err := Compare(of(every("@every 1s")), of(every("@every 2s")), from, to, 2)
	if err != nil || len(got.Due) != 1 || !got.Due[0].Inexact || got.Due[0].Gone != 5000 || got.Due[0].New != 0 {
		t.Errorf("each second, and each second one: %+v, %v", got.Due, err)
	}
	if _, err := Compare(of(every("no expression")), of(every("@daily")), from, to, 2); err == nil {
		t.Error("a broken schedule is no error")
	}
}

func TestDefinitionsThatChange(t *testing.T) {
	job := func(timeout time.Duration) jobs.Job { return jobs.Job{Schedule: "@daily", Timeout: timeout} }
	old := jobs.Set{Jobs: map[string]jobs.Job{"a": job(1), "b": job(1), "c": job(1)}, Pools: map[string]jobs.Pool{"p": {Workers: 3}, "q": {}}}
	now := jobs.Set{Jobs: map[string]jobs.Job{"b": job(1), "c": job(2), "d": job(1)}, Pools: map[string]jobs.Pool{"p": {Workers: 4}, "r": {}}}
	got, err := Compare(old, now, start, start.Add(time.Hour), 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Jobs.Added, []string{"d"}) || !slices.Equal(got.Jobs.Removed, []string{"a"}) || fmt.Sprint(got.Jobs.Changed) != "[{c [{timeout 1ns 2ns false}]}]" {
		t.Errorf("jobs: %+v", got.Jobs)
	}
	if !slices.Equal(got.Pools.Added, []string{"r"}) || !slices.Equal(got.Pools.Removed, []string{"q"}) || fmt.Sprint(got.Pools.Changed) != "[{p [{workers 3 4 false}]}]" {
		t.Errorf("pools: %+v", got.Pools)
	}
	if fmt.Sprint(got.Ping) != "[]" {
		t.Errorf("ping: %+v", got.Ping)
	}
	if same, err := Compare(old, old, start, start.Add(time.Hour), 1); !got.Any() || same.Any() || err != nil {
		t.Errorf("the same: %+v, %v", same, err)
	}
}

// Whom the replicas call is a change of its own, also beside the same jobs; the default of how often is none.
func TestAPingThatChanges(t *testing.T) {
	of := func(every time.Duration, name string) jobs.Set {
		return jobs.Set{Ping: jobs.Ping{Every: every, Handler: jobs.Named(name, jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil }))}}
	}
	for what, c := range map[string]struct {
		old, now jobs.Set
		want     string
	}{
		"nobody":       {jobs.Set{}, jobs.Set{}, "[]"},
		"the same":     {of(0, "x"), of(time.Minute, "x"), "[]"},
		"how often":    {of(0, "x"), of(time.Hour, "x"), "[{every 1m0s 1h0m0s false}]"},
		"another":      {of(0, "x"), of(0, "y"), "[{handler x: func literal(struct {}) y: func literal(struct {}) false}]"},
		"somebody now": {jobs.Set{}, of(0, "x"), "[{every  1m0s false} {handler  x: func literal(struct {}) false}]"},
	} {
		got, err := Compare(c.old, c.now, start, start.Add(time.Hour), 1)
		if err != nil || fmt.Sprint(got.Ping) != c.want || got.Any() != (c.want != "[]") {
			t.Errorf("%s: %v, %v, want %s", what, got.Ping, err, c.want)
		}
	}
}
