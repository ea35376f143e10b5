package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// condition returns r's readiness and one condition.
func (r *replica) condition(t *testing.T, name string) (ready bool, detail string) {
	t.Helper()
	answer, err := http.Get(r.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var view struct {
		Conditions []struct{ Name, Detail string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&view); err != nil {
		t.Fatal(err)
	}
	for _, c := range view.Conditions {
		if c.Name == name {
			detail = c.Detail
		}
	}
	return answer.StatusCode == http.StatusOK, detail
}

// outage is a service that goes and comes back while a replica runs.
type outage struct {
	name        string
	lock        func(t *testing.T) (section string, stop, start func())
	condition   string
	readyBeside bool // the replica goes on without it
}

// Store and lock service stop and come back: readiness reports it, everything due is decided, and nothing is restarted.
func TestOutages(t *testing.T) {
	t.Parallel()
	redis := func(t *testing.T) (string, func(), func()) {
		s := servers.NewRedis(t)
		return fmt.Sprintf(`{driver: redis, ttl: 2s, redis: {addrs: [%q]}}`, s.Addr), s.Kill, s.Start
	}
	// A frozen server keeps its connections: nothing is refused, and nothing is answered.
	frozen := func(when string) func(t *testing.T) (string, func(), func()) {
		return func(t *testing.T) (string, func(), func()) {
			s := servers.NewRedis(t)
			return fmt.Sprintf(`{driver: redis, ttl: 2s, when_down: %s, redis: {addrs: [%q]}}`, when, s.Addr), s.Pause, s.Continue
		}
	}
	zookeeper := func(t *testing.T) (string, func(), func()) {
		s := servers.NewZooKeeper(t)
		return fmt.Sprintf(`{driver: zookeeper, ttl: 2s, zookeeper: {servers: [%q], session_timeout: 2s}}`, s.Addr), s.Kill, s.Start
	}
	for _, o := range []outage{
		{"redis", redis, "lock", true},
		{"redis frozen", frozen("store"), "lock", true},
		{"redis frozen, when_down wait", frozen("wait"), "lock", false},
		{"zookeeper", zookeeper, "lock", true},
		{"store", nil, "store", false},
	} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			db := servers.NewMySQL(t)
			lock, stop, start := `{driver: mysql}`, db.Stop, db.Start
			if o.lock != nil {
				lock, stop, start = o.lock(t)
			}
			dir := t.TempDir()
			config := filepath.Join(dir, "lockstep.yaml")
			text := fmt.Sprintf("version: 1\nreplica: {session_ttl: 3s}\nstore: {driver: mysql, dsn: %q}\nlock: %s\n"+
				"jobs:\n  second: {schedule: \"* * * * * *\", command: [\"true\"]}\n", db.DSN("lockstep"), lock)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := startReplica(t, config, "r1")
			began := time.Now()
			program.Within(t, 15*time.Second, "the job runs", func() bool { return len(r.triggers(t, "&outcome=ran")) >= 2 })
			stop()
			program.Within(t, 15*time.Second, "readiness says so", func() bool {
				ready, detail := r.condition(t, o.condition)
				return ready == o.readyBeside && strings.Contains(detail, "unavailable")
			})
			gone := time.Now().UTC().Add(time.Second)
			decided := func() int { return len(r.triggers(t, "&since="+gone.Format(time.RFC3339))) }
			switch {
			case o.readyBeside:
				program.Within(t, 15*time.Second, "the job runs without it", func() bool { return decided() >= 2 })
			case o.lock != nil: // the store could go on, and must not
				time.Sleep(time.Until(gone.Add(3 * time.Second)))
				if n := decided(); n > 0 {
					t.Errorf("%d due times were decided without it", n)
				}
			}
			start()
			program.Within(t, 15*time.Second, "readiness is green again", func() bool {
				ready, detail := r.condition(t, o.condition)
				return ready && detail == ""
			})
			back := time.Now().UTC().Add(time.Second)
			program.Within(t, 15*time.Second, "the job runs again", func() bool {
				return len(r.triggers(t, "&outcome=ran&since="+back.Format(time.RFC3339))) >= 2
			})
			r.wantEverySecond(t, time.Since(began))
		})
	}
}

type trigger struct {
	At, Until time.Time
	DecidedAt time.Time `json:"decided_at"`
	Outcome   string
	Count     int
}

// triggers lists the latest rows of the job, latest first.
func (r *replica) triggers(t *testing.T, filter string) []trigger {
	t.Helper()
	var page struct{ Items []trigger }
	if err := r.call("GET", "/api/v1/triggers?limit=500&job=second"+filter, nil, &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// wantEverySecond checks that the rows cover each second once, for about as long as the job was due.
func (r *replica) wantEverySecond(t *testing.T, d time.Duration) {
	t.Helper()
	rows, due := r.triggers(t, ""), 0
	for i, row := range rows {
		due += max(row.Count, 1)
		if i == 0 {
			continue
		}
		end := row.At
		if !row.Until.IsZero() {
			end = row.Until
		}
		if want := end.Add(time.Second); !rows[i-1].At.Equal(want) {
			t.Errorf("after the row until %v comes the one for %v", end, rows[i-1].At)
		}
	}
	if due < int(d/time.Second)-2 {
		t.Errorf("%d due times in %v", due, d)
	}
}
