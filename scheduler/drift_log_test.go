package scheduler_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Both sides log who governs and who differs in what, with hash and time of both files: the replica with the older configuration, and the one that governs.
// So does readiness. It holds for a job, for handlers of a pool, and for settings that the older one takes over.
func TestBothSidesLogWhatDiffers(t *testing.T) {
	t.Parallel()
	job := func(does string) jobs.Job { return jobs.Job{Schedule: "0 0 29 2 *", Handler: described(does)} }
	pool := func(does string, most int) jobs.Pool {
		return jobs.Pool{MaxRunning: most, Handler: described(does)}
	}
	sets := func(j jobs.Job, p jobs.Pool) jobs.Set {
		return jobs.Set{Jobs: map[string]jobs.Job{"j": j}, Pools: map[string]jobs.Pool{"p": p}}
	}
	before := sets(job("one"), pool("p", 3))
	for name, c := range map[string]struct {
		newer             jobs.Set
		says, such, ready string // the older one
		differs           string // the one that governs
	}{
		"a job": {
			sets(job("two"), pool("p", 3)),
			"jobs differ from another replica's newer configuration, and are left to that replica; give it the newer file jobs=1", "j",
			"1 jobs that this replica defines differently", "1 job: j",
		},
		"a handler of a pool": {
			sets(job("one"), pool("q", 3)),
			"handlers of pools differ from another replica's newer configuration, and their tasks are left to that replica; give it the newer file pools=1",
			"p (tasks without a kind)", "tasks of 1 pools whose handlers it does not have: p (tasks without a kind)", "1 pool: p",
		},
		"a setting of a pool": {
			sets(job("one"), pool("p", 4)),
			"settings of pools differ from another replica's newer configuration, and its settings hold here, too; give this replica the newer file pools=1", "p",
			"settings of 1 pools that this replica has otherwise: p", "1 pool: p",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := sqlite(t)
			logs := map[string]*replicatest.Warnings{"old": {}, "new": {}}
			said := map[string][]string{}
			at := time.Date(2026, 12, 1, 10, 30, 0, 0, time.UTC)
			run := func(id string, set jobs.Set, at time.Time) *replica {
				return start(t, db.open(t), nil, set, scheduler.Options{ID: id, ConfigAt: at, Logger: slog.New(logs[id])})
			}
			older := run("old", before, at)
			await.Until(t, "the first governs", func() bool { return older.Health()[0].Ready })
			newer := run("new", c.newer, at.Add(time.Hour))
			await.Until(t, "the second governs", func() bool { return newer.Health()[0].Ready })
			texts := map[string]string{}
			peers, err := db.open(t).Sides().Replica.Peers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range peers {
				if len(p.ConfigHash) < 12 {
					t.Fatalf("%+v", p)
				}
				texts[p.Replica] = fmt.Sprintf("configuration %d (%s, file of %s)", p.Config, p.ConfigHash[:12], p.ConfigAt.UTC().Format(time.RFC3339))
			}
			if !strings.HasSuffix(texts["old"], "file of 2026-12-01T10:30:00Z)") || !strings.HasSuffix(texts["new"], "file of 2026-12-01T11:30:00Z)") {
				t.Fatalf("the replicas have %q", texts)
			}
			says := func(id, want string) {
				t.Helper()
				await.Until(t, id+" logs "+want, func() bool {
					said[id] = append(said[id], logs[id].Take()...)
					return slices.Contains(said[id], want)
				})
			}
			says("old", fmt.Sprintf("%s such as=%s newer=%s of replica new own=%s", c.says, c.such, texts["new"], texts["old"]))
			says("new", fmt.Sprintf("another replica has an older configuration; what differs is left to those with this one's; give it the newer file replica=old older=%s: %s governs=%s",
				texts["old"], c.differs, texts["new"]))
			if got, want := older.Health()[3].Detail, fmt.Sprintf("a newer configuration governs %s; %s of replica new is newer than %s", c.ready, texts["new"], texts["old"]); got != want {
				t.Errorf("readiness of the older one: %s\nwant %s", got, want)
			}
			if got, want := newer.Health()[3].Detail, fmt.Sprintf("replica old has the older %s: %s", texts["old"], c.differs); got != want {
				t.Errorf("readiness of the newer one: %s\nwant %s", got, want)
			}
			for _, r := range []*replica{newer, older} {
				if err := r.drain(); err != nil {
					t.Error(err)
				}
			}
			for id, lines := range logs { // each says it once
				all := append(said[id], lines.Take()...)
				if n := len(slices.DeleteFunc(slices.Clone(all), func(line string) bool { return !strings.Contains(line, " configuration") })); n != 1 {
					t.Errorf("%s says %q", id, all)
				}
			}
		})
	}
}
