package embedding

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

// post is the program under test.
type post struct{ sent []string }

func (p *post) work() jobs.Set {
	return jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {Kinds: map[string]jobs.Handler{"letter": jobs.Func(p.send)}}},
		Jobs:  map[string]jobs.Job{"digest": {Schedule: "0 8 * * MON-FRI", Timezone: "Europe/London", Handler: jobs.Func(p.digest)}},
	}
}

func (p *post) send(_ context.Context, _ jobs.Task, l Letter) error {
	p.sent = append(p.sent, l.To)
	return nil
}

func (p *post) digest(_ context.Context, t jobs.Task, _ struct{}) error {
	p.sent = append(p.sent, "digest of "+t.ScheduledAt.Format(time.DateOnly))
	return nil
}

func TestLetters(t *testing.T) {
	p := &post{}
	b := schedulertest.New(t, p.work(), schedulertest.Options{}) // on SQLite, in memory
	b.Enqueue(jobs.NewTask{Pool: "mail", Kind: "letter", Payload: Letter{To: "ada"}})
	for _, task := range b.Drain() {
		if task.State != jobs.StateSucceeded {
			t.Errorf("%s: %s %s", task.Kind, task.State, task.Error)
		}
	}
	if len(p.sent) != 1 {
		t.Errorf("%q were sent", p.sent)
	}
}

func TestDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		b := schedulertest.New(t, p.work(), schedulertest.Options{})
		b.RunUntil(time.Now().Add(14 * 24 * time.Hour)) // in milliseconds
		if len(p.sent) != 10 {
			t.Errorf("%d digests in two weeks: %q", len(p.sent), p.sent)
		}
	})
}
