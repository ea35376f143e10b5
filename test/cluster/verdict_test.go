package cluster

import (
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// lateAfter is how much later than its due time a trigger may be decided and started, on a machine that
// does not stand still itself.
const lateAfter = time.Second

// openTasks counts the tasks that users enqueued and that have not ended.
func (f *fixture) openTasks(t *testing.T) (n int) {
	t.Helper()
	if err := f.db.QueryRow(`SELECT COUNT(*) FROM lockstep_tasks WHERE job = ''`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// verdict checks the records after all replicas have ended. Triggers that came due while the last one stopped may be
// left for the next start.
func (f *fixture) verdict(t *testing.T, victim string, killed, stopped time.Time, ids map[string][]string, web *counter) {
	t.Helper()
	ended := f.ended(t)
	f.checkTicks(t, ended, victim, killed, stopped)
	f.checkEffects(t, ended, ids, web)
	for pool, list := range ids {
		for _, id := range list {
			e, ok := ended[id]
			if !ok {
				t.Errorf("%s task %s was acknowledged and is not among the ended ones", pool, id)
				continue
			}
			f.checkTask(t, pool, e, victim, killed)
			delete(ended, id)
		}
	}
	for id, e := range ended {
		if e.job == "" {
			t.Errorf("%s task %s was never enqueued", e.pool, id)
		}
	}
	var open int
	if err := f.db.QueryRow(`SELECT COUNT(*) FROM lockstep_tasks WHERE job <> 'tick' OR state = 2`).Scan(&open); err != nil || open > 0 {
		t.Errorf("%d tasks are still open or said to run, %v", open, err)
	}
}

// tick is a row of the ledger.
type tick struct {
	at, decided, started    time.Time
	count                   int
	outcome, result, reason string
	taskID                  string
}

// checkTicks checks that every second has one row, that it ran in time, and that no second's key was written twice.
func (f *fixture) checkTicks(t *testing.T, ended map[string]end, victim string, killed, stopped time.Time) {
	t.Helper()
	var ticks []tick
	f.rows(t, `SELECT at, due_count, outcome, result, reason, task_id, decided_at, started_at FROM lockstep_triggers WHERE job = 'tick' ORDER BY at`,
		func(rows *sql.Rows) error {
			var k tick
			var at, decided, started int64
			err := rows.Scan(&at, &k.count, &k.outcome, &k.result, &k.reason, &k.taskID, &decided, &started)
			k.at, k.decided, k.started = time.UnixMicro(at).UTC(), time.UnixMicro(decided), time.UnixMicro(started)
			ticks = append(ticks, k)
			return err
		})
	if len(ticks) < 15 {
		t.Fatalf("only %d seconds in the ledger", len(ticks))
	}

	written := map[string]int{}
	for _, key := range lines(t, f.ticks) {
		written[key]++
		if written[key] > 1 {
			t.Errorf("key %s was written %d times", key, written[key])
		}
	}
	for i, k := range ticks {
		name := k.at.Format(time.RFC3339)
		if want := ticks[0].at.Add(time.Duration(i) * time.Second); !k.at.Equal(want) {
			t.Fatalf("row %d of the ledger is of %s, want %s", i, name, want.Format(time.RFC3339))
		}
		if k.count != 1 {
			t.Errorf("%s: the row covers %d due times", name, k.count)
		}
		if late := k.decided.Sub(k.at); late < 0 || late > lateAfter+f.pulse.stalled(k.at, k.decided) {
			t.Errorf("%s: decided %v after it was due", name, late)
		}
		e := ended[k.taskID]
		switch {
		case k.outcome == "ran" && k.result == "succeeded":
			if late := k.started.Sub(k.at); late < 0 || late > lateAfter+f.pulse.stalled(k.at, k.started) {
				t.Errorf("%s: started %v after it was due", name, late)
			}
			if n := written["tick@"+name]; n != 1 {
				t.Errorf("%s: succeeded, and its key was written %d times", name, n)
			}
			if e.state != "succeeded" {
				t.Errorf("%s: succeeded in the ledger, its task %q is %q", name, k.taskID, e.state)
			}
		case k.outcome == "lost" && e.state == "lost" && e.replica == victim:
			if !k.started.Before(killed) {
				t.Errorf("%s: started on %s after that was killed", name, victim)
			}
			if took := e.finished.Sub(killed); took > lostWithin+f.pulse.stalled(killed, e.finished) {
				t.Errorf("%s: lost %v after the kill", name, took)
			}
		case k.outcome == "" && k.at.After(stopped.Add(-lateAfter)):
		default:
			t.Errorf("%s: outcome %q, result %q, reason %q; its task ended %q on %s", name, k.outcome, k.result, k.reason, e.state, e.replica)
		}
	}
}

// end is a task's last row.
type end struct {
	id, pool, job, state, reason, replica string
	attempt, losses                       int
	finished                              time.Time
	earlier                               []attempt
}

// attempt is one that ended before a task's last.
type attempt struct {
	state, replica, reason string
	finished               time.Time
}

func (f *fixture) ended(t *testing.T) map[string]end {
	t.Helper()
	all := map[string]end{}
	f.rows(t, `SELECT id, pool, job, state, reason, replica, attempt, losses, finished_at FROM lockstep_done`, func(rows *sql.Rows) error {
		var e end
		var finished int64
		err := rows.Scan(&e.id, &e.pool, &e.job, &e.state, &e.reason, &e.replica, &e.attempt, &e.losses, &finished)
		e.finished = time.UnixMicro(finished)
		all[e.id] = e
		return err
	})
	f.rows(t, `SELECT task_id, state, replica, reason, finished_at FROM lockstep_attempts`, func(rows *sql.Rows) error {
		var id string
		var a attempt
		var finished int64
		err := rows.Scan(&id, &a.state, &a.replica, &a.reason, &finished)
		a.finished = time.UnixMicro(finished)
		e := all[id]
		e.earlier = append(e.earlier, a)
		all[id] = e
		return err
	})
	return all
}

// checkTask checks that a task succeeded, at its first attempt unless the killed replica ran that; in keep, where a
// loss is final, the killed replica's tasks are lost.
func (f *fixture) checkTask(t *testing.T, pool string, e end, victim string, killed time.Time) {
	t.Helper()
	if pool == "keep" && e.state == "lost" {
		if e.replica != victim || e.finished.Sub(killed) > lostWithin+f.pulse.stalled(killed, e.finished) {
			t.Errorf("keep task %s: lost on %s, %v after the kill of %s (%s)", e.id, e.replica, e.finished.Sub(killed), victim, e.reason)
		}
		return
	}
	if e.state != "succeeded" {
		t.Errorf("%s task %s ended %s on %s (%s)", pool, e.id, e.state, e.replica, e.reason)
	}
	if e.attempt != e.losses+1 || e.losses > 1 {
		t.Errorf("%s task %s succeeded at attempt %d after %d losses", pool, e.id, e.attempt, e.losses)
	}
	if len(e.earlier) != e.losses {
		t.Errorf("%s task %s: %d losses, but %d earlier attempts", pool, e.id, e.losses, len(e.earlier))
	}
	for _, a := range e.earlier {
		if took := a.finished.Sub(killed); a.state != "lost" || a.replica != victim || took > lostWithin+f.pulse.stalled(killed, a.finished) {
			t.Errorf("%s task %s: an earlier attempt ended %s on %s, %v after the kill of %s (%s)", pool, e.id, a.state, a.replica, took, victim, a.reason)
		}
	}
}

// checkEffects checks that each task acted once outside, or once more for each lost attempt, whose effect is unknown.
func (f *fixture) checkEffects(t *testing.T, ended map[string]end, ids map[string][]string, web *counter) {
	t.Helper()
	shells := map[string]int{}
	for _, key := range lines(t, f.shells) {
		shells[key[strings.LastIndex(key, "/")+1:]]++
	}
	lost := 0
	for _, pool := range []string{"web", "shell"} {
		for _, id := range ids[pool] {
			acted := shells[id]
			if pool == "web" {
				acted = web.of(id)
			}
			if acted < 1 || acted > 1+ended[id].losses {
				t.Errorf("%s task %s acted %d times, with %d lost attempts", pool, id, acted, ended[id].losses)
			}
			lost += ended[id].losses
		}
	}
	if again := slices.ContainsFunc(ids["again"], func(id string) bool { return ended[id].losses == 1 }); !again {
		t.Error("no long task was lost and tried again")
	}
	if lost == 0 {
		t.Error("the killed replica was not in the middle of anything")
	}
	t.Logf("%d requests and commands were lost with the killed replica, and done again", lost)
}

// logOpen logs the state of the tasks that have not ended.
func (f *fixture) logOpen(t *testing.T) {
	t.Helper()
	f.rows(t, `SELECT pool, state, replica, COUNT(*), MIN(run_at) FROM lockstep_tasks GROUP BY pool, state, replica`, func(rows *sql.Rows) error {
		var pool, replica string
		var state, n int
		var runAt int64
		err := rows.Scan(&pool, &state, &replica, &n, &runAt)
		t.Logf("open: %d tasks of %s in state %d, replica %q, the first was due at %s", n, pool, state, replica, time.UnixMicro(runAt).UTC().Format(time.RFC3339))
		return err
	})
}

func (f *fixture) rows(t *testing.T, query string, scan func(*sql.Rows) error) {
	t.Helper()
	rows, err := f.db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}
