package cluster

import (
	"database/sql"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

var away = flag.Duration("away", 0, "how long TestTenMinutesAway stops all replicas; 0: it sets the cursors of the jobs ten minutes back instead; make chaos takes 10m")

const (
	minuteJobs   = 1000
	secondJobs   = 10
	caughtUp     = 60 * time.Second // from when the first replica has joined until all that was owed has run
	catchUpGrace = 10 * time.Second // the default
	recorded     = time.Second      // from the end of a run until a decision sees it: as its job is due soon, it is recorded at once
	promptly     = 5 * time.Second  // of a hundred due times beside it, 99 start within it, and none later than its grace
)

// All replicas were stopped for ten minutes, and 1,000 jobs are due each minute. Then each due time has one row, as the policy of its job
// says: with none no late one runs, with latest one of them, with all each of them, one after the other. All that is to run has, within a
// minute, and jobs that are due each second meanwhile are in time.
func TestTenMinutesAway(t *testing.T) {
	t.Parallel()
	for _, c := range cells[:2] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := newTarget(t)
			dir := t.TempDir()
			config := filepath.Join(dir, "lockstep.yaml")
			dialect, dsn, lock := c.open(t, dir)
			var text strings.Builder
			fmt.Fprintf(&text, "version: 1\nname: away\nreplica: {session_ttl: 5s}\nstore: {driver: %s, dsn: %q}\nlock: %s\npools:\n  web: {http: {method: POST, url: %q}}\n  prompt: {http: {method: POST, url: %q}}\njobs:\n",
				dialect, dsn, lock, target.URL, target.URL)
			for i := range minuteJobs {
				policy := []string{"none", "latest", "all"}[i%3]
				fmt.Fprintf(&text, "  %s-%03d: {schedule: \"* * * * *\", pool: web, catch_up: {policy: %s, limit: 100}}\n", policy, i, policy)
			}
			for i := range secondJobs {
				fmt.Fprintf(&text, "  second-%d: {schedule: \"* * * * * *\", pool: prompt, concurrency: allow}\n", i)
			}
			if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			startReplica(t, config, "r1").Drain(t, 30*time.Second)
			f := &fixture{db: openStore(t, dialect, dsn), pulse: startPulse(t, dir)}
			cursors := f.goAway(t)
			target.forget()

			began := time.Now()
			var replicas []*replica
			for _, id := range []string{"r1", "r2", "r3"} { // at once: the first one would have made up for much before the others come
				cmd := exec.Command(program.Build(t, scheduler), "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", id)
				replicas = append(replicas, &replica{Process: program.Start(t, cmd), id: id})
			}
			for _, r := range replicas {
				r.url = r.URL(t)
			}
			joined := time.UnixMicro(number(t, f.db, `SELECT MIN(joined_at) FROM lockstep_sessions WHERE dead = 0`))
			program.Within(t, 3*caughtUp, "all that was owed has run", func() bool { return settled(t, f.db, joined) })
			ended := time.Now()
			program.Within(t, caughtUp, "all that came due meanwhile has run", func() bool { return settled(t, f.db, ended) })
			for _, r := range replicas {
				r.Drain(t, 40*time.Second)
			}
			t.Logf("three replicas were ready and had made up for all %v after they were started", ended.Sub(began).Round(time.Millisecond))
			rows := ledgerRows(t, f.db)
			f.wantCaughtUp(t, rows, cursors, joined, ended)
			f.wantPrompt(t, rows, joined, ended)
			target.want(t, rows)
		})
	}
}

// goAway makes ten minutes pass without a replica, or those of the flag, and returns where the cursor of each job stands then.
func (f *fixture) goAway(t *testing.T) map[string]time.Time {
	t.Helper()
	exec := func(statement string, args ...any) {
		if _, err := f.db.Exec(statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"triggers", "tasks", "done"} { // of what was due while the rows of the jobs were made
		exec("DELETE FROM lockstep_" + table)
	}
	if *away > 0 {
		time.Sleep(*away)
	} else {
		back := time.Now().Truncate(time.Minute).Add(-10 * time.Minute)
		exec(`UPDATE lockstep_jobs SET cursor_at = ?, next_at = ?, waiting_at = 0 WHERE name NOT LIKE 'second%'`, back.UnixMicro(), back.Add(time.Minute).UnixMicro())
	}
	cursors := map[string]time.Time{}
	query(t, f.db, `SELECT name, cursor_at FROM lockstep_jobs`, func(rows *sql.Rows) error {
		var name string
		var at time.Time
		err := rows.Scan(&name, (*micros)(&at))
		cursors[name] = at
		return err
	})
	return cursors
}

// settled reports whether all that was due by then is decided and has ended.
func settled(t *testing.T, db *sql.DB, by time.Time) bool {
	t.Helper()
	return number(t, db, `SELECT COUNT(*) FROM lockstep_jobs WHERE next_at > 0 AND next_at <= ? OR waiting_at > 0 AND waiting_at <= ?`, by.UnixMicro(), by.UnixMicro()) == 0 &&
		number(t, db, `SELECT COUNT(*) FROM lockstep_triggers WHERE outcome = '' AND at <= ?`, by.UnixMicro()) == 0
}

// wantCaughtUp holds the rows of the jobs that are due each minute to the arithmetic of their policies.
func (f *fixture) wantCaughtUp(t *testing.T, all map[string][]row, cursors map[string]time.Time, joined, until time.Time) {
	t.Helper()
	ran, last := map[string]int{}, time.Time{}
	jobs := 0
	for job, rows := range all {
		policy, _, _ := strings.Cut(job, "-")
		if policy == "second" {
			continue
		}
		jobs++
		at := cursors[job].Truncate(time.Minute)
		for i, r := range rows {
			if r.at.After(until) { // the replicas drained then
				break
			}
			if want := at.Add(time.Minute); !r.at.Equal(want) {
				t.Fatalf("%s: after %s comes the row of %s, want %s", job, clock(at), clock(r.at), clock(want))
			}
			if at = r.last(); int(at.Sub(r.at)/time.Minute)+1 != r.count {
				t.Errorf("%s: the row from %s to %s counts %d due times", job, clock(r.at), clock(at), r.count)
			}
			if r.outcome == "ran" {
				ran[policy]++
			}
			if !r.at.After(joined) && r.finished.After(last) {
				last = r.finished
			}
			if why := f.wrong(policy, rows, i); why != "" {
				t.Errorf("%s: the row from %s to %s, decided at %s, is %s, cause %s, reason %s: %s", job, clock(r.at), clock(at), clock(r.decided), r.outcome, r.cause, r.code, why)
			}
		}
		if !at.After(joined.Add(-time.Minute)) {
			t.Errorf("%s: the last row is of %s, and the replicas came at %s", job, clock(at), clock(joined))
		}
	}
	if jobs != minuteJobs {
		t.Errorf("%d jobs have rows", jobs)
	}
	took := last.Sub(joined)
	t.Logf("made up for all within %v: %v runs", took.Round(time.Millisecond), ran)
	if took > caughtUp+f.pulse.stalled(joined, until) {
		t.Errorf("it took %v", took)
	}
}

// wrong says what a row of a job that is due each minute should be instead.
func (f *fixture) wrong(policy string, rows []row, i int) string {
	r := rows[i]
	late := func(r row) bool { return r.at.Before(r.decided.Add(-catchUpGrace)) }
	if !late(r) { // it runs, unless the run before it was not over
		switch {
		case r.count == 1 && r.cause == "schedule" && r.outcome == "ran":
		case r.count == 1 && r.code == "slot_taken" && i > 0 && r.decided.Sub(rows[i-1].finished) < recorded+f.pulse.stalled(rows[i-1].finished, r.decided):
		case i > 0:
			return "it was in time, and runs; the one before it ended at " + clock(rows[i-1].finished)
		default:
			return "it was in time, and runs"
		}
		return ""
	}
	if r.cause != "catch_up" {
		return "it is a catch-up"
	}
	next := i + 1
	for next < len(rows) && rows[next].decided.Equal(r.decided) {
		next++
	}
	others := rows[i+1 : next] // that were decided with it
	switch {
	case policy == "none" && (r.outcome != "missed" || r.code != "catch_up_none"):
		return "it is missed"
	case policy == "none" && slices.ContainsFunc(others, late):
		return "all late ones are one row"
	case policy == "latest" && len(others) == 0 && (r.outcome != "ran" || r.count != 1):
		return "the latest one runs"
	case policy == "latest" && len(others) > 0 && (r.outcome != "missed" || r.code != "catch_up_latest"):
		return "it is missed, as a later one runs"
	case policy == "latest" && len(others) > 1 && late(others[0]):
		return "one late one runs at most"
	case policy == "all" && (r.outcome != "ran" || r.count != 1):
		return "it runs"
	case policy == "all" && i > 0 && r.started.Before(rows[i-1].finished):
		return "it starts when the one before it has ended, at " + clock(rows[i-1].finished)
	}
	return ""
}

// wantPrompt holds that jobs which are due each second were decided and started in time, from when the first replica had joined.
func (f *fixture) wantPrompt(t *testing.T, all map[string][]row, joined, until time.Time) {
	t.Helper()
	var decided, started []time.Duration
	for i := range secondJobs {
		job := fmt.Sprint("second-", i)
		var before row
		for _, r := range all[job] {
			if want := before.last().Add(time.Second); !before.at.IsZero() && !r.at.Equal(want) {
				t.Errorf("%s: after %s comes the row of %s", job, clock(before.last()), clock(r.at))
			}
			before = r
			if r.at.Before(joined) || r.at.After(until) {
				continue
			}
			if r.outcome != "ran" || r.cause != "schedule" {
				t.Errorf("%s at %s is %q, cause %s, reason %s", job, clock(r.at), r.outcome, r.cause, r.code)
				continue
			}
			decided = append(decided, r.decided.Sub(r.at)-f.pulse.stalled(r.at, r.decided))
			started = append(started, r.started.Sub(r.at)-f.pulse.stalled(r.at, r.started))
		}
	}
	if len(started) < secondJobs {
		t.Fatalf("%d due times beside the catch-up", len(started))
	}
	for what, late := range map[string][]time.Duration{"decided": decided, "started": started} {
		slices.Sort(late)
		most, almost := late[len(late)-1], late[len(late)*99/100]
		t.Logf("beside it %d due times of other jobs were %s: 99 of 100 within %v, all within %v", len(late), what, almost, most)
		if almost > promptly || most > catchUpGrace {
			t.Errorf("late %s", what)
		}
	}
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// target is the application that the jobs call. It notes the due times for which each job called it, in order.
type target struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string][]string
}

func newTarget(t *testing.T) *target {
	x := &target{calls: map[string][]string{}}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		defer x.mu.Unlock()
		job, at, _ := strings.Cut(r.Header.Get("Idempotency-Key"), "@")
		x.calls[job] = append(x.calls[job], at)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(x.Close)
	return x
}

// forget is called between two runs of the replicas.
func (x *target) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.calls)
}

// want holds that each job called for the due times that ran, for each once, and for no other. Those of the minutes did so in their order.
func (x *target) want(t *testing.T, all map[string][]row) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for job, rows := range all {
		var want []string
		for _, r := range rows {
			if r.outcome == "ran" {
				want = append(want, r.at.Format(time.RFC3339))
			}
		}
		got := slices.Clone(x.calls["away/"+job])
		if strings.HasPrefix(job, "second") {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s called for %v, and ran for %v", job, got, want)
		}
	}
}
