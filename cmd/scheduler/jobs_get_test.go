package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// wholeJob has a value of each kind of setting.
func wholeJob() wire.Job {
	filled := jobs.Job{
		Concurrency: jobs.Queue, MaxRunning: 3, OnLost: jobs.LostRetries, CatchUp: jobs.CatchUp{Policy: jobs.CatchUpAll}, Retries: jobs.Retries{Limit: 2, On: []int{1, 75}},
		Locks: []jobs.Lock{{Key: "orders-db"}, {Key: "uplink", Limit: 3}, {Key: "schema", Mode: jobs.LockShared, OnLost: jobs.LockContinues}},
	}.WithDefaults()
	return wire.Job{
		Name: "report", Description: "d", Schedules: []string{"@daily"}, Timezone: "UTC", StartsAt: time.Unix(1e9, 0), EndsAt: time.Unix(9e9, 0),
		Calendars: &wire.JobCalendars{Exclude: []string{"off"}}, Spread: "1m0s", Jitter: "1s", Pool: "mail", Kind: "letter", Handler: "sends", Timeout: "1h0m0s",
		Concurrency: filled.Concurrency, MaxRunning: 3, QueueLimit: filled.QueueLimit, OnLost: filled.OnLost, LostLimit: filled.LostLimit,
		CatchUp: wire.NewJobCatchUp(filled.CatchUp), Retries: wire.NewJobRetries(filled.Retries), Locks: wire.NewJobLocks(filled.Locks), LockWait: "10m0s",
		Priority: 5, RunsOn: map[string]string{"zone": "a"}, Labels: map[string]string{"team": "a"}, Output: &wire.JobOutput{Keep: 2048}, Expect: &wire.JobExpect{StartWithin: "1m0s"},
		Notify: &wire.JobNotify{On: []jobs.Event{jobs.EventFailed, jobs.EventLost}, Handler: "tells"}, Payload: []byte(`{"n":1}`), PayloadSize: 7, Params: []byte(`{"type":"object"}`),
		SuspendAfter: 5, Definition: &wire.JobDefinition{Hash: "h"},
	}
}

// Each setting of a job is in what jobs get prints of it.
func TestJobsGetHasEverySetting(t *testing.T) {
	shown := func(j wire.Job) string {
		var out strings.Builder
		if err := (&app{now: func() time.Time { return time.Unix(2e9, 0) }}).showJob(&out, j); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	whole := wholeJob()
	all, is := shown(whole), reflect.ValueOf(&whole).Elem()
	for i := range is.NumField() {
		name, field := is.Type().Field(i).Name, is.Field(i)
		if field.IsZero() {
			if name == "Suspended" {
				break // what follows is no setting
			}
			t.Errorf("the job of this test has no %s", name)
		}
		was := reflect.New(field.Type()).Elem()
		was.Set(field)
		field.SetZero()
		if name != "PayloadSize" && shown(whole) == all { // the payload is there
			t.Errorf("without %s the same is printed:\n%s", name, all)
		}
		field.Set(was)
	}
	lines := map[string]string{
		"on lost:": "retry, up to 3 lost attempts", "catch up:": "all of the last 24h0m0s, 10 at most; late after 10s", "retries:": "up to 2, after 1s to 15m0s; only on 1, 75",
		"locks:": "orders-db; uplink, 3 at once; schema, shared, goes on without it if it is lost", "lock wait:": "10m0s", "notifies:": "of failed, lost, by tells", "payload:": `{"n":1}`,
	}
	for line := range strings.Lines(all) {
		for name, want := range lines {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if diff := cmp.Diff(want, strings.TrimSpace(rest)); diff != "" {
					t.Errorf("%s %s", name, diff)
				}
				delete(lines, name)
			}
		}
	}
	if len(lines) > 0 {
		t.Errorf("missing are %v in\n%s", lines, all)
	}
	whole.Payload, whole.PayloadSize, whole.Retries = nil, 5000, nil
	whole.CatchUp.Policy, whole.CatchUp.Window, whole.CatchUp.Limit, whole.Notify.On = jobs.CatchUpNone, "", 0, nil
	for _, want := range []string{"5000 bytes", "retries:        none\n", "none; late after 10s", "of no event, by tells"} {
		if got := shown(whole); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
