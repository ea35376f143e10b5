package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestWhyJob: the next due time, one that is none, one in the past, and wrong usage.
func TestWhyJob(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	like(t, "hello is due in …, at …-01-01 00:00:00 UTC; nothing is known that would stop it.\n"+
		"\n"+
		"due at:      …-01-01 00:00:00 UTC (in …), …-01-01T00:00:00Z\n"+
		"definition:  …, of configuration 1, since … UTC\n"+
		"before it:   …\n"+
		"after it:    …\n"+
		"\n"+
		"CODE   WHY\n"+
		"due    is due in …\n", r.fine(t, "why", "hello"))

	r.fine(t, "jobs", "suspend", "hello")
	y := decodeJSON[wire.WhyJob](t, r.fine(t, "why", "hello", "-o", "json"))
	if len(y.Causes) != 2 || y.Causes[0].Code != reason.Suspended || y.Causes[0].By != "api:127.0.0.1" || y.Causes[1].Code != reason.Due || y.Definition == nil {
		t.Errorf("%+v", y)
	}
	r.fine(t, "jobs", "resume", "hello", "--reset")

	next := y.At
	y = decodeJSON[wire.WhyJob](t, r.fine(t, "why", "hello", next.Add(time.Hour).Format(time.RFC3339), "-o", "json"))
	if y.Causes[0].Code != reason.NotADueTime || !y.Before.Equal(next) || y.After.Year() != next.Year()+1 {
		t.Errorf("%+v", y)
	}
	if got := r.fine(t, "why", "hello", "300d"); !strings.Contains(got, "\nbefore_job ") {
		t.Error(got)
	}
	if got := r.fine(t, "why", "fails"); !strings.Contains(got, "fails has no schedule: it runs on demand.") {
		t.Error(got)
	}

	// A run by hand is no due time, and is found by its moment.
	id := strings.TrimSpace(r.fine(t, "jobs", "run", "hello"))
	await.Until(t, "it has run", func() bool { return strings.Contains(r.fine(t, "tasks", "get", id), "succeeded") })
	task := decodeJSON[wire.Task](t, r.fine(t, "tasks", "get", id, "-o", "json")).Task
	y = decodeJSON[wire.WhyJob](t, r.fine(t, "why", "hello", task.ScheduledAt.Format(time.RFC3339Nano), "-o", "json"))
	if len(y.ByHand) != 1 || y.ByHand[0].TaskID != id || y.Causes[0].Code != reason.ByHand {
		t.Errorf("%+v", y)
	}
	for args, want := range map[string]string{
		"why hello 367d":                      "scheduler: TIME: duration \"367d\" is longer than a year; write a time, as in 2026-03-29T00:00:00Z\n",
		"jobs run hello --at 367d":            "scheduler: --at: duration \"367d\" is longer than a year; write a time, as in 2026-03-29T00:00:00Z\n",
		"jobs suspend hello --until 9999999h": "scheduler: --until: duration \"9999999h\" is longer than a year; write a time, as in 2026-03-29T00:00:00Z\n",
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != exitUsage || !strings.HasPrefix(stderr, want) {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
	for args, want := range map[string]int{
		"why nope": exitFailed, "why": exitUsage, "why hello yesterday": exitUsage, "why hello 1h 2h": exitUsage, "why hello 1850-01-01": exitFailed,
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != want || stderr == "" {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
}

// What was measured of a decision is said as far as it is known.
func TestMeasurementsOfADecision(t *testing.T) {
	for want, is := range map[string]wire.WhyTrigger{
		"": {},
		"the store took 3ms, locks took 1.5s, clock ahead of the database's by -20ms": {Took: "3ms", LockTook: "1.5s", ClockOffset: "-20ms"},
		"locks took 1.5s": {LockTook: "1.5s"},
	} {
		if got := measuredOf(&is); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// A definition that does not govern any more is shown with its end.
func TestWhenADefinitionGoverned(t *testing.T) {
	since := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for want, d := range map[string]wire.Definition{
		"3f9a, of configuration 6, since 2026-03-01 08:00:00 UTC":                               {Hash: "3f9a", Config: 6, Since: since},
		"3f9a, of configuration 6, since 2026-03-01 08:00:00 UTC until 2026-03-01 09:00:00 UTC": {Hash: "3f9a", Config: 6, Since: since, Until: since.Add(time.Hour)},
	} {
		if got := governedText(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
