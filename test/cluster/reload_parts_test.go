package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// partsConfig has a part of each kind that an edit is about. Its values are the limits of narrow and of slots, and where told notifies.
const partsConfig = `version: 1
store: {driver: sqlite, dsn: lockstep.db}
calendars:
  closed: {ics: closed.ics}
pools:
  narrow: {workers: 8, max_running: %d, shell: 'until [ -e release ]; do sleep 0.1; done'}
jobs:
  calm: {schedule: "* * * * * *", calendars: {exclude: [closed]}, shell: 'echo ran >>calm'}
  vars: {schedule: "* * * * * *", env_file: vars.env, shell: 'echo "$COLOUR" >>vars'}
  slots: {schedule: "* * * * * *", max_running: %d, shell: 'until [ -e release ]; do sleep 0.1; done'}
  told: {command: ["false"], notify: {webhook: "%s"}}
`

// parts is a replica whose files are edited while it runs.
type parts struct {
	*replica
	dir string
}

func (p *parts) put(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// lines is what a job has written.
func (p *parts) lines(name string) []string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	return strings.Fields(string(text))
}

// wrote waits until a job has written a line so many times.
func (p *parts) wrote(t *testing.T, name, line string, times int) {
	t.Helper()
	program.Within(t, 30*time.Second, fmt.Sprintf("%s writes %s", name, line), func() bool {
		return strings.Count(strings.Join(p.lines(name), " ")+" ", line+" ") >= times
	})
}

// seconds waits until some due times more have passed for sure: a job of each second has run so often since.
func (p *parts) seconds(t *testing.T, n int) {
	t.Helper()
	before := len(p.lines("vars"))
	program.Within(t, 30*time.Second, "another job runs", func() bool { return len(p.lines("vars")) >= before+n })
}

// running is how many tasks of a pool or a job run.
func (p *parts) running(t *testing.T, of string) int {
	t.Helper()
	var list page
	if err := p.call("GET", "/api/v1/tasks?limit=500&state=running&"+of, nil, &list); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// runs waits until so many run, and holds that no more do.
func (p *parts) runs(t *testing.T, of string, n int) {
	t.Helper()
	program.Within(t, 30*time.Second, fmt.Sprintf("%d of %s run", n, of), func() bool { return p.running(t, of) >= n })
	p.seconds(t, 2)
	if now := p.running(t, of); now != n {
		t.Errorf("%d of %s run, want %d", now, of, n)
	}
}

// closedUntil is a calendar file whose one event lasts until a year.
func closedUntil(year int) string {
	return fmt.Sprintf("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:test\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20200101T000000Z\r\nDTSTART:20200101T000000Z\r\n"+
		"DTEND:%d0101T000000Z\r\nSUMMARY:closed\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", year)
}

// An edit of each part of a configuration, and of each file that it names, takes effect in a replica that runs: what it does shows it.
func TestEachPartIsReloaded(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int32
	hooks := http.NewServeMux()
	hooks.HandleFunc("/first", func(http.ResponseWriter, *http.Request) { first.Add(1) })
	hooks.HandleFunc("/second", func(http.ResponseWriter, *http.Request) { second.Add(1) })
	server := httptest.NewServer(hooks)
	defer server.Close()

	p := &parts{dir: t.TempDir()}
	thisYear := time.Now().Year()
	p.put(t, "closed.ics", closedUntil(thisYear+10))
	p.put(t, "vars.env", "COLOUR=red\n")
	narrow, slots, hook := 1, 1, "/first"
	edit := func() {
		t.Helper()
		p.put(t, "lockstep.yaml", fmt.Sprintf(partsConfig, narrow, slots, server.URL+hook))
	}
	edit()
	p.replica = startReplica(t, filepath.Join(p.dir, "lockstep.yaml"), "r1")
	p.wrote(t, "vars", "red", 3)

	// The calendar's file: closed, open, closed again.
	if ran := p.lines("calm"); len(ran) > 0 {
		t.Errorf("a job ran %d times while its calendar is closed", len(ran))
	}
	p.put(t, "closed.ics", closedUntil(thisYear-1))
	p.wrote(t, "calm", "ran", 2)
	p.put(t, "closed.ics", closedUntil(thisYear+10))
	program.Within(t, 30*time.Second, "the calendar is closed again", func() bool {
		before := len(p.lines("calm"))
		p.seconds(t, 3)
		return len(p.lines("calm")) == before
	})

	// The file of variables.
	p.put(t, "vars.env", "COLOUR=green\n")
	p.wrote(t, "vars", "green", 1)
	p.seconds(t, 2)
	if all := p.lines("vars"); all[len(all)-1] != "green" {
		t.Errorf("after the edit of its variables a job writes %q", all)
	}

	// How many run, of a pool and of a job.
	p.enqueue(t, "narrow", 6)
	p.runs(t, "pool=narrow", 1)
	p.runs(t, "job=slots", 1)
	narrow = 3
	edit()
	p.runs(t, "pool=narrow", 3)
	p.runs(t, "job=slots", 1)
	slots = 2
	edit()
	p.runs(t, "job=slots", 2)
	p.runs(t, "pool=narrow", 3)

	// Where notifications go.
	tell := func(told *atomic.Int32) {
		t.Helper()
		before := told.Load()
		var run struct{}
		if err := p.call("POST", "/api/v1/jobs/told/run", nil, &run); err != nil {
			t.Fatal(err)
		}
		program.Within(t, 30*time.Second, "somebody is told", func() bool { return told.Load() > before })
	}
	tell(&first)
	if second.Load() != 0 {
		t.Error("another one is told")
	}
	hook = "/second"
	loads := strings.Count(p.Log(), `"msg":"configuration loaded again"`)
	edit()
	program.Within(t, 30*time.Second, "it is loaded", func() bool { return strings.Count(p.Log(), `"msg":"configuration loaded again"`) > loads })
	before := first.Load()
	tell(&second)
	if first.Load() != before {
		t.Error("the address before the edit is told, too")
	}

	p.put(t, "release", "")
	p.Drain(t, 30*time.Second)
}
