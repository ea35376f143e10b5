package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var storeOutage = flag.Duration("store-outage", 15*time.Second, "how long TestStoreless keeps the database down; make chaos takes 90s")

// TestStoreless: while the database is down nothing starts, running attempts go on until they may be replaced, and no
// session expires. Once it is back, everything due is decided within five seconds.
func TestStoreless(t *testing.T) {
	t.Parallel()
	db := servers.NewMySQL(t)
	dir := t.TempDir()
	// A command that is ending may write once more: not into a folder that is being removed.
	t.Cleanup(func() { _ = os.Rename(dir, dir+".ended") })
	file := func(name string) string { return filepath.Join(dir, name) }
	// works appends one line each time it is seen at work: its key and when.
	works := func(name, more string) string {
		return strconv.Quote(fmt.Sprintf(`while [ -d '%s' ] %s; do echo "$LOCKSTEP_IDEMPOTENCY_KEY $(date +%%s%%N)" >> '%s'; sleep 0.1; done`, dir, more, file(name)))
	}
	program.Build(t, scheduler) // before the clock of the backup starts
	nightly := time.Now().UTC().Add(5 * time.Second)
	text := fmt.Sprintf(`version: 1
replica: {session_ttl: 3s}
store: {driver: mysql, dsn: %q}
jobs:
  second: {schedule: "* * * * * *", shell: %s}
  backup: {schedule: %q, shell: %s}
  often: {schedule: "@every 10s", shell: %s}
`, db.DSN("lockstep"), strconv.Quote(fmt.Sprintf(`echo "$LOCKSTEP_IDEMPOTENCY_KEY $(date +%%s%%N)" >> '%s'`, file("second"))),
		nightly.Format("5 4 15 * * *"), works("backup", fmt.Sprintf("&& [ ! -e '%s' ]", file("release"))), works("often", ""))
	config := file("lockstep.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := startReplica(t, config, "a"), startReplica(t, config, "b")
	began := time.Now()
	program.Within(t, 20*time.Second, "the backup and the frequent job run", func() bool {
		return len(work(t, file("backup"))) == 1 && len(work(t, file("often"))) > 0
	})

	db.Kill()
	down := time.Now()
	time.Sleep(*storeOutage)
	for _, r := range []*replica{a, b} {
		if ready, detail := r.condition(t, "store"); ready || !strings.Contains(detail, "unavailable") {
			t.Errorf("%s, without a database: ready %v, %q", r.id, ready, detail)
		}
	}
	db.Start()
	up := time.Now()
	for _, r := range []*replica{a, b} {
		program.Within(t, 5*time.Second-time.Since(up), "readiness is green again", func() bool {
			ready, _ := r.condition(t, "store")
			return ready
		})
	}
	back := time.Now().UTC().Truncate(time.Second).Add(time.Second)
	program.Within(t, 5*time.Second, "the job of every second runs in time again", func() bool {
		return len(a.triggers(t, "&outcome=ran&since="+back.Format(time.RFC3339))) >= 1
	})
	owed := 0
	for _, row := range a.triggers(t, "") {
		if !row.At.Before(up) || row.DecidedAt.Before(down) { // what is quick decides before Start has returned
			continue
		}
		owed += max(row.Count, 1)
		if after := row.DecidedAt.Sub(up); after > 5*time.Second {
			t.Errorf("what was due at %v was decided %v after the database was back", row.At, after)
		}
	}
	if owed < int(*storeOutage/time.Second)-2 {
		t.Errorf("%d due times were owed after an outage of %v", owed, *storeOutage)
	}
	program.Within(t, 15*time.Second, "the frequent job runs again", func() bool {
		runs := work(t, file("often"))
		return runs[len(runs)-1].first.After(up)
	})

	for _, s := range work(t, file("second")) {
		if s.first.After(down.Add(time.Second)) && s.first.Before(up.Add(-time.Second)) {
			t.Errorf("%s started while the database was down", s.key)
		}
	}
	runs := work(t, file("often"))
	for i, run := range runs[1:] {
		if !run.first.After(runs[i].last) {
			t.Errorf("%s began %v before %s ended", run.key, runs[i].last.Sub(run.first), runs[i].key)
		}
	}
	if err := os.WriteFile(file("release"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	program.Within(t, 10*time.Second, "the backup has succeeded", func() bool {
		var p struct {
			Items []struct{ Outcome, Result string }
		}
		if err := a.call("GET", "/api/v1/triggers?job=backup", nil, &p); err != nil {
			t.Fatal(err)
		}
		return len(p.Items) == 1 && p.Items[0].Outcome == "ran" && p.Items[0].Result == "succeeded"
	})
	if runs := work(t, file("backup")); len(runs) != 1 || !runs[0].last.After(up) {
		t.Errorf("the backup ran as %v", runs)
	}
	var peers struct{ Items []struct{ ID, State string } }
	if err := a.call("GET", "/api/v1/replicas", nil, &peers); err != nil || len(peers.Items) != 2 {
		t.Errorf("replicas: %v, %v", peers.Items, err)
	}
	for _, r := range []*replica{a, b} {
		if strings.Contains(r.Log(), "replica's session expired") {
			t.Errorf("%s or its peer expired:\n%s", r.id, r.Log())
		}
	}
	a.wantEverySecond(t, time.Since(began))
}

// run is what one run of a job left behind, from its own words.
type run struct {
	key         string
	first, last time.Time
}

// work reads the runs of a file in the order in which they began.
func work(t *testing.T, file string) (runs []run) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	at := map[string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		key, nanos, ok := strings.Cut(line, " ")
		if !ok {
			continue // the line is being written
		}
		n, err := strconv.ParseInt(nanos, 10, 64)
		if err != nil {
			t.Fatalf("%q in %s", line, file)
		}
		seen := time.Unix(0, n)
		if _, has := at[key]; !has {
			at[key] = len(runs)
			runs = append(runs, run{key: key, first: seen})
		}
		runs[at[key]].last = seen
	}
	return runs
}
