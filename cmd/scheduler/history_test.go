package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// TestJobsHistory: the one definition of a job that has had no other, and what diff says of it.
func TestJobsHistory(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	like(t, "HASH               CONFIG   SINCE(UTC)            UNTIL(UTC)   CHANGED\n…   1        …   governs      -\n", r.fine(t, "jobs", "history", "hello"))
	rows := decodeJSON[[]wire.Definition](t, r.fine(t, "jobs", "history", "hello", "-o", "json"))
	if len(rows) != 1 || rows[0].Job != "hello" || len(rows[0].Hash) != 16 || !strings.Contains(string(rows[0].Definition), `"priority": -3`) {
		t.Errorf("%+v", rows)
	}
	if got := r.fine(t, "jobs", "diff", "hello", rows[0].Hash[:5], strings.ToUpper(rows[0].Hash)); !strings.HasSuffix(got, "\nThey are the same.\n") {
		t.Error(got)
	}
	for args, want := range map[string]int{
		"jobs history": exitUsage, "jobs history nope": exitFailed, "jobs history hello --limit -1": exitUsage,
		"jobs diff hello": exitFailed, "jobs diff hello zz": exitUsage, "jobs diff nope": exitFailed, "jobs diff hello a b c": exitUsage,
	} {
		if code, _, stderr := r.scheduler(t, "", strings.Fields(args)...); code != want || stderr == "" {
			t.Errorf("%s: %d %q", args, code, stderr)
		}
	}
}

func TestDefinitionsAreChosen(t *testing.T) {
	of := func(hash, text string) wire.Definition {
		return wire.Definition{Job: "a", Hash: hash, Since: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), Definition: json.RawMessage(text)}
	}
	rows := []wire.Definition{of("cc1", `{"timeout":"2h"}`), of("ab1", `{"timeout":"1h","env":["x"]}`), of("ab2", `{"timeout":"2h"}`)}
	for args, want := range map[string]string{"a": "ab1 cc1", "a ab2": "ab2 cc1", "a AB2 ab1": "ab2 ab1", "a ab": "error", "a x": "error", "a ab1 x": "error"} {
		from, to, err := chosen(rows, strings.Fields(args))
		if got := from.Hash + " " + to.Hash; (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("%s: %s, %v", args, got, err)
		}
	}
	if _, _, err := chosen(nil, []string{"a"}); err == nil {
		t.Error("without a history there is no difference")
	}
	var b strings.Builder
	if err := showDiff(&b, rows[1], rows[0], wire.Changes(rows[1], rows[0])); err != nil {
		t.Fatal(err)
	}
	like(t, "from ab1, since 2026-03-01 08:00:00 UTC\n  to cc1, since 2026-03-01 08:00:00 UTC\n\nSETTING   FROM    TO\nenv       …x…   -\ntimeout   1h      2h\n", b.String())
	b.Reset()
	if err := showDiff(&b, rows[2], rows[0], wire.Changes(rows[2], rows[0])); err != nil || !strings.Contains(b.String(), "They differ in what is not shown") {
		t.Error(b.String(), err)
	}
	if got := changedFields(rows[1], rows[0]) + ";" + changedFields(wire.Definition{}, rows[0]); got != "env, timeout;" {
		t.Error(got)
	}
}

// Of a definition that came back the row has the last time that it governed, and a note has the first.
func TestDefinitionsThatReturn(t *testing.T) {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	rows := []wire.Definition{{Hash: "ab1", FirstAt: at, Since: at.Add(2 * time.Hour)}, {Hash: "cc1", FirstAt: at.Add(time.Hour), Since: at.Add(time.Hour), Until: at.Add(2 * time.Hour)}}
	if got := returned(rows); got != "note: ab1 governed before, first from 2026-03-01 08:00:00 UTC; SINCE and UNTIL are of the last time\n" {
		t.Error(got)
	}
	if got := returned(rows[1:]); got != "" {
		t.Error(got)
	}
}
