package page_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// TestSettings: the page of a job has its policies and its locks, and says who has resumed it over its definition.
func TestSettings(t *testing.T) {
	t.Parallel()
	lk, err := locks.New(memlock.New(), locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lk.Close(context.WithoutCancel(t.Context())) })
	s := newSceneOf(t, jobs.Set{Jobs: map[string]jobs.Job{"import": {
		Schedule: "@yearly", Timezone: "UTC", Suspend: true, Handler: does(fine), Retries: jobs.Retries{Limit: 2}, CatchUp: jobs.CatchUp{Policy: jobs.CatchUpAll},
		Locks: []jobs.Lock{{Key: "orders-db"}, {Key: "uplink", Limit: 3}},
	}}}, api.Options{}, scheduler.Options{ID: "replica-1", JobLocks: lk})
	b := newTab(t, 1280)
	b.navigate(s.url + "jobs/import")
	b.says("#headline", "Suspended in its definition")
	b.says("#facts", "up to 2, after 1s to 15m0s")
	b.says("#facts", "all, of the last 24h0m0s, 10 at most")
	b.says("#facts", "uplink, 3 at once")
	if text := b.text("#sum"); strings.Contains(text, "resumed") {
		t.Errorf("it is suspended: %s", text)
	}
	resumed := false
	if err := s.store.Sides().API.SuspendJob(t.Context(), "import", "ann", &resumed); err != nil {
		t.Fatal(err)
	}
	b.says("#sum", "resumed by ann, though its definition suspends it")
	b.until("it has a next due time", `document.querySelector("#due tbody")`)
}
