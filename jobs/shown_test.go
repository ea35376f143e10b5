package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Each setting that counts in the hash is shown, but for what may be secret.
func TestEveryFieldOfAJobIsShown(t *testing.T) {
	job := Job{Schedule: "@daily", Handler: says("h")}
	seen := map[string]string{}
	everyField(t, job, func(field string, altered Job) {
		is := string(altered.Shown())
		if forPeople[field] {
			if is != string(job.Shown()) {
				t.Errorf("%s is for people, and shown: %s", field, is)
			}
			return
		}
		if other, dup := seen[is]; dup || is == string(job.Shown()) {
			t.Errorf("a change of %s is shown as that of %q: %s", field, other, is)
		}
		seen[is] = field
	})
}

func TestShown(t *testing.T) {
	got := string(Job{
		Schedule: "0 8 * * *", Timezone: "Europe/London", StartsAt: time.Date(2026, 12, 1, 1, 0, 0, 0, time.FixedZone("", 3600)), Handler: says("copies"),
		Payload: map[string]int{"n": 1}, Locks: []Lock{{Key: "db", Mode: LockShared}}, RunsOn: map[string]string{"zone": "a"}, CatchUp: CatchUp{Window: time.Hour},
		Retries: Retries{Limit: 2, On: []int{1, 75}}, Notify: Notify{On: []Event{EventLost}, Handler: says("mail")}, Description: "secret", Suspend: true,
	}.Shown())
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got), &all); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"catch_up": `{"grace":"10s","limit":10,"policy":"latest","window":"1h0m0s"}`, "concurrency": `"forbid"`, "handler": `"copies"`,
		"locks": `[{"key":"db","limit":1,"mode":"shared","on_lost":"cancel"}]`, "lost_limit": "3", "notify": `{"handler":"mail","on":["lost"]}`, "on_lost": `"fail"`,
		"payload": `{"n":1}`, "pool": `"default"`, "retries": `{"backoff":"1s","limit":2,"max_backoff":"15m0s","on":[1,75]}`, "runs_on": `{"zone":"a"}`,
		"schedules": `["0 8 * * *"]`, "starts_at": `"2026-12-01T00:00:00Z"`, "ends_at": "", "suspend": "true", "timeout": `"24h0m0s"`, "timezone": `"Europe/London"`,
		"description": "", "labels": "", "schedule": "",
	} {
		if string(all[field]) != want {
			t.Errorf("%s: %s, want %s", field, all[field], want)
		}
	}
	if is := string((Job{}).Shown()); strings.Contains(is, "payload") || strings.Contains(is, "handler") || !json.Valid([]byte(is)) {
		t.Error(is)
	}
	large := string((Job{Payload: strings.Repeat("x", 2000)}).Shown())
	if len(large) > 1000 || !strings.Contains(large, `"payload_size":2002`) || !strings.Contains(large, `"payload_sha256":"`) {
		t.Error(large)
	}
}

// Of calendars it is shown how much is in them, and a digest that is another one if, and only if, their times are.
func TestCalendarsAreShownByTheirTimes(t *testing.T) {
	text := func(c Calendar) string {
		set := Set{Calendars: map[string]Calendar{"off": c, "other": {}}}
		j := Job{Schedule: "@daily", Calendars: JobCalendars{Exclude: []string{"off"}}}
		var is struct {
			Times map[string]string `json:"calendar_times"`
		}
		if err := json.Unmarshal(j.ShownWithin(set.Compiler().Calendars()), &is); err != nil || len(is.Times) != 1 {
			t.Fatalf("%v: %v", err, is)
		}
		return is.Times["off"]
	}
	one, same := text(Calendar{Dates: []string{"2026-12-25", "2026-12-26"}}), text(Calendar{Dates: []string{"2026-12-26", "2026-12-25"}, Timezone: "UTC"})
	if one != same || !strings.HasPrefix(one, "2 dates, ") || len(one) != len("2 dates, ")+12 {
		t.Errorf("%q and %q", one, same)
	}
	if other := text(Calendar{Dates: []string{"2026-12-25", "2026-12-27"}}); other == one || !strings.HasPrefix(other, "2 dates, ") {
		t.Errorf("other dates are %q", other)
	}
	if weekly := text(Calendar{Weekly: []string{"SAT,SUN"}, Dates: []string{"2026-12-25"}}); !strings.HasPrefix(weekly, "1 date, 1 weekly, ") {
		t.Errorf("%q", weekly)
	}
	if strings.Contains(string((Job{Calendars: JobCalendars{Only: []string{"off"}}}).Shown()), "calendar_times") {
		t.Error("times that are not known are shown")
	}
}
