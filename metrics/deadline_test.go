package metrics

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func TestDeadlines(t *testing.T) {
	yes, no := true, false
	day := 24 * time.Hour
	due := time.Date(2026, 3, 2, 2, 30, 0, 0, time.UTC) // a Monday
	for _, c := range []struct {
		name     string
		job      jobs.Job
		standing ledger.JobStanding
		after    time.Duration // due; -1: no deadline
	}{
		{"the next due time", jobs.Job{Schedule: "30 2 * * *", Timeout: time.Hour}, ledger.JobStanding{NextAt: due}, time.Hour},
		{"an unmet one comes first", jobs.Job{Schedule: "30 2 * * *", Timeout: time.Hour}, ledger.JobStanding{Unmet: due, NextAt: due.Add(day)}, time.Hour},
		{"no later than the due time that follows", jobs.Job{Schedule: "30 2 * * *", Timeout: 72 * time.Hour}, ledger.JobStanding{NextAt: due}, day},
		{"by default a timeout of a day", jobs.Job{Schedule: "30 2 * * MON"}, ledger.JobStanding{NextAt: due}, day},
		{"weekends are no gap", jobs.Job{Schedule: "30 2 * * MON-FRI", Timeout: 6 * day}, ledger.JobStanding{NextAt: due.Add(-3 * day)}, 0},
		{
			"all attempts, and what lies between them",
			jobs.Job{Schedule: "30 2 * * *", Timeout: time.Hour, Retries: jobs.Retries{Limit: 2, Backoff: time.Minute, MaxBackoff: 10 * time.Minute}},
			ledger.JobStanding{NextAt: due},
			3*time.Hour + 20*time.Minute,
		},
		{"no less than the leeway", jobs.Job{Schedule: "* * * * *", Timeout: time.Second}, ledger.JobStanding{NextAt: due}, leeway},
		{"what may start later, by its jitter", jobs.Job{Schedule: "30 2 * * *", Timeout: time.Hour, Jitter: 30 * time.Minute}, ledger.JobStanding{NextAt: due}, 90 * time.Minute},
		{"without end", jobs.Job{Schedule: "30 2 29 2 *", Timeout: 200 * 365 * day, Retries: jobs.Retries{Limit: 1 << 40}}, ledger.JobStanding{NextAt: due}, time.Date(2028, 2, 29, 2, 30, 0, 0, time.UTC).Sub(due)},
		{"no schedule", jobs.Job{Timeout: time.Hour}, ledger.JobStanding{Unmet: due}, -1},
		{"nothing is due any more", jobs.Job{Schedule: "30 2 * * *"}, ledger.JobStanding{}, -1},
		{"suspended", jobs.Job{Schedule: "30 2 * * *", Suspend: true}, ledger.JobStanding{Unmet: due}, -1},
		{"suspended by hand", jobs.Job{Schedule: "30 2 * * *"}, ledger.JobStanding{Unmet: due, Suspended: &yes}, -1},
		{"resumed by hand", jobs.Job{Schedule: "30 2 * * *", Suspend: true, Timeout: time.Hour}, ledger.JobStanding{Unmet: due, Suspended: &no}, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := newPlans(jobs.Set{Jobs: map[string]jobs.Job{"j": c.job}}.WithDefaults())
			c.standing.Name = "j"
			want := time.Time{}
			if c.after >= 0 {
				want = due.Add(c.after)
			}
			for range 2 { // the second time from memory
				if got := all.deadline(c.standing); !got.Equal(want) {
					t.Fatalf("got %v, want %v", got, want)
				}
			}
			c.standing.Unmet, c.standing.NextAt = time.Time{}, due.Add(7*day)
			if got := all.deadline(c.standing); got.Before(want) {
				t.Errorf("later due times bring %v forward to %v", want, got)
			}
		})
	}
	if got := newPlans(jobs.Set{}).deadline(ledger.JobStanding{Name: "unknown", NextAt: due}); !got.IsZero() {
		t.Errorf("a job that this replica does not know: %v", got)
	}
}
