package plan

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A lost attempt delays its successor no longer than it may run.
func TestUntilTheNextDueTimeOrTheTimeout(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		job  jobs.Job
		want time.Duration
	}{
		"due soon":        {jobs.Job{Schedule: "@hourly", Timeout: 4 * time.Hour}, time.Hour},
		"a short timeout": {jobs.Job{Schedule: "@hourly", Timeout: time.Minute}, time.Minute},
		"on demand":       {jobs.Job{Timeout: time.Minute}, time.Minute},
		"beside others":   {jobs.Job{Schedule: "@hourly", Timeout: 4 * time.Hour, Concurrency: jobs.Allow}, 4 * time.Hour},
	} {
		c.job.Handler = replicatest.Nothing{}
		p, err := New(jobs.Set{Jobs: map[string]jobs.Job{"j": c.job}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Jobs["j"].Until(now); !got.Equal(now.Add(c.want)) {
			t.Errorf("%s: until %v", name, got)
		}
	}
	retried := jobs.Job{Schedule: "@hourly", Handler: replicatest.Nothing{}, OnLost: jobs.LostRetries}
	p, err := New(jobs.Set{Jobs: map[string]jobs.Job{"j": retried}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Jobs["j"].Until(now); !got.IsZero() {
		t.Errorf("with on_lost retry: until %v", got)
	}
}

// A payload is encoded once: what tasks get is what the program gave, not what its value is by then.
func TestPayloadsAreEncodedOnce(t *testing.T) {
	greeting := map[string]string{"to": "ada"}
	p, err := New(jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: replicatest.Nothing{}, Payload: greeting}, "none": {Handler: replicatest.Nothing{}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	greeting["to"] = "bob"
	j := p.Jobs["j"]
	if string(j.Payload) != `{"to":"ada"}` || j.Hash != (jobs.Job{Handler: replicatest.Nothing{}, Payload: j.Payload}).Hash() {
		t.Errorf("payload %s, hash %s", j.Payload, j.Hash)
	}
	if none := p.Jobs["none"].Payload; none != nil {
		t.Errorf("a job without payload has %q", none)
	}
}
