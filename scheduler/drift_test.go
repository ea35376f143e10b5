package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Two configurations on one store: the older replica says in how many jobs they differ, though none
// of them is due and whatever stripe they are in; and no longer once it is alone. The newer one says the same of it. A restart with the
// older one changes nothing, until it is made the newest.
func TestTheOlderConfigurationSaysWhereItDiffers(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	set := func(command, only string) jobs.Set {
		job := func(does string) jobs.Job {
			return jobs.Job{Schedule: "0 0 29 2 *", Handler: jobs.Wrap(described(does), surrounded)}
		}
		return jobs.Set{Jobs: map[string]jobs.Job{"same": job("same"), "edited": job(command), only: job("own")}}
	}
	older := start(t, db.open(t), nil, set("one", "old"), scheduler.Options{ID: "older"})
	await.Until(t, "the first governs", func() bool { return older.Health()[0].Ready })
	newer := start(t, db.open(t), nil, set("two", "new"), scheduler.Options{ID: "newer"})
	drift := func(r *replica) string { return r.Health()[3].Detail }
	await.Until(t, "the older one says so", func() bool { return strings.Contains(drift(older), "3 jobs") && older.Vitals().Foreign == 3 })
	if says := drift(older); !strings.Contains(says, "; configuration 2 (") || !strings.Contains(says, ") of replica newer is newer than configuration 1 (") {
		t.Errorf("the older one says %s", says)
	}
	await.Until(t, "the newer one says so", func() bool {
		says := drift(newer)
		return strings.HasPrefix(says, "replica older has the older configuration 1 (") && strings.HasSuffix(says, "): 3 jobs: edited, new, old")
	})
	newest := start(t, db.open(t), nil, set("one", "old"), scheduler.Options{ID: "newest"})
	await.Until(t, "a restart with the older one changes nothing", func() bool { return newest.Vitals().Foreign == 3 })
	if newer.Vitals().Foreign != 0 || older.Vitals().Foreign != 3 {
		t.Errorf("the newer one leaves %d jobs, the older one %d", newer.Vitals().Foreign, older.Vitals().Foreign)
	}
	out, err := newest.Replace(t.Context(), set("one", "old"), scheduler.ReplaceOptions{Activate: true})
	if err != nil || out.Config != 3 || !out.Governs || !out.Jobs.None() {
		t.Errorf("made the newest: %+v, %v", out, err)
	}
	await.Until(t, "the one in between does not agree with the newest", func() bool { return newer.Vitals().Foreign == 3 })
	await.Until(t, "the older one does, and says so of the one in between", func() bool {
		return strings.HasPrefix(drift(older), "replica newer has the older configuration 2 (") && older.Vitals().Foreign == 0
	})
	for _, r := range []*replica{newest, newer} {
		if err := r.drain(); err != nil {
			t.Error(err)
		}
	}
	await.Until(t, "the older one governs again", func() bool { return drift(older) == "" })
}

// Jobs that have the handler of their pool run by the newest configuration of the pool, also those
// whose due times an older replica decides.
func TestTheOlderConfigurationRunsNoHandlerOfTheirPool(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	set := func(h jobs.Handler) jobs.Set {
		set := jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h}}, Jobs: map[string]jobs.Job{}}
		for i := range 12 {
			set.Jobs[fmt.Sprint("second-", i)] = jobs.Job{Schedule: "* * * * * *", Pool: "p", Concurrency: jobs.Allow}
		}
		return set
	}
	before, after := &starts{}, &starts{}
	older := start(t, db.open(t), nil, set(saying{before, "before"}), scheduler.Options{ID: "older"})
	await.Until(t, "the first one works", func() bool { return before.count() >= 12 })
	newer := start(t, db.open(t), nil, set(saying{after, "after"}), scheduler.Options{ID: "newer"})
	await.Until(t, "the second one governs", func() bool { return newer.Health()[0].Ready && after.count() >= 12 })
	had, has := before.count(), after.count()
	await.Until(t, "two more rounds", func() bool { return after.count() >= has+24 })
	if n := before.count(); n > had {
		t.Errorf("%d runs of what the pool had before", n-had)
	}
	if older.Vitals().Stripes == 0 {
		t.Error("the older one looks after nothing")
	}
}

// surrounded is middleware without an identity of its own or of its handler.
func surrounded(next jobs.Handler) jobs.Handler { return jobs.HandlerFunc(next.Run) }

// described is a handler with an identity.
func described(does string) jobs.Handler { return saying{&starts{}, does} }

type saying struct {
	*starts
	does string
}

func (s saying) Describe() string { return s.does }
