package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// What workers run waits for one that takes it, whatever replicas there are. A worker is no replica.
func whyByWorkers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := withKinds("pdf")
	for i := range d.Pools {
		if d.Pools[i].Name == "work" {
			d.Pools[i].Kinds = map[string]string{"pdf": "worker:1"}
		}
	}
	s.load(d)
	made, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "pdf"})
	must(t, err)
	id := made[0].ID
	s.causes("no worker", id, reason.NoWorker)
	s.worker("fax-1", "", "work", "fax")
	s.worker("pdf-1", "", "default", "pdf")
	s.causes("workers of others", id, reason.NoWorker)
	session := s.worker("pdf-2", "", "work", "pdf")
	if c := s.causes("a worker", id, reason.Ready); !strings.Contains(c.Message, "a worker over HTTP takes it in pool work") {
		t.Errorf("%+v", c)
	}
	must(t, s.Store.SetDraining(s.ctx(), s.session))
	if c := s.causes("the replica drains", id, reason.NoLiveReplica); len(c.Replicas) != 1 {
		t.Errorf("a worker is among the replicas: %+v", c)
	}
	must(t, s.Store.Leave(s.ctx(), session))
}

// A running task has its replica, and what was asked of it.
func whyRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	id := s.enqueue("work", 1)[0]
	task := s.claim("work", 1)[0]
	c := s.causes("running", id, reason.Running)
	if c.Replica != "one" || c.Attempt != 1 || c.MaxAttempts != 3 || !c.Since.Equal(task.StartedAt) || !c.MayRunUntil.Equal(task.StartedAt.Add(time.Minute)) || time.Since(c.SeenAt) > time.Minute {
		t.Errorf("%+v", c)
	}
	_, err := b.Store.Cancel(s.ctx(), id, "ann")
	must(t, err)
	if c := s.causes("asked to stop", id, reason.CancelRequested, reason.Running); c.By != "ann" {
		t.Errorf("%+v", c)
	}
	s.DB.Exec(t, "UPDATE {sessions} SET seen_at=seen_at-61000000 WHERE replica='one'")
	s.causes("no heartbeat", id, reason.ReplicaSilent, reason.CancelRequested, reason.Running)
	_, err = b.Store.Beat(s.ctx(), s.session)
	must(t, err)
	s.causes("a heartbeat", id, reason.CancelRequested, reason.Running)
	s.die()
	s.causes("its session is dead", id, reason.ReplicaSilent, reason.CancelRequested, reason.Running)
	s.reap()
	s.causes("reaped", id, reason.ReplicaDied)
}

// An ended task has how it ended, and where.
func whyEnded(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ids := s.enqueue("work", 5)
	got := s.claim("work", 4)
	bad := result(got[1], ledger.Ended, jobs.StateFailed)
	code := 3
	bad.Reason, bad.Code, bad.Error, bad.ExitCode = "exit code 3", reason.ExitCode, "oops", &code
	plain := result(got[2], ledger.Ended, jobs.StateFailed)
	plain.Error = "no\nreally"
	s.finish(result(got[0], ledger.Ended, jobs.StateSucceeded), bad, plain)
	if c := s.causes("ended well", ids[0], reason.Succeeded); c.Replica != "one" || c.Attempt != 1 || c.Since.IsZero() || !strings.Contains(c.Message, "attempt 1 of 3 on one") {
		t.Errorf("%+v", c)
	}
	if c := s.causes("failed", ids[1], reason.ExitCode); *c.ExitCode != 3 || c.Error != "oops" || !strings.HasSuffix(c.Message, ": exit code 3") {
		t.Errorf("%+v", c)
	}
	if c := s.causes("failed without a reason", ids[2], reason.Error); !strings.HasSuffix(c.Message, ": no") {
		t.Errorf("%+v", c)
	}
	s.die()
	s.reap()
	if c := s.causes("lost", ids[3], reason.ReplicaDied); c.MayRunUntil.IsZero() || !strings.Contains(c.Message, "may run until") {
		t.Errorf("%+v", c)
	}
	_, err := b.Store.Cancel(s.ctx(), ids[4], "ann")
	must(t, err)
	if c := s.causes("cancelled", ids[4], reason.Cancelled); c.Attempt != 0 || !strings.Contains(c.Message, "before an attempt started: cancelled by ann") {
		t.Errorf("%+v", c)
	}
	other := s.second("two")
	other.load(definitions())
	s.newTask(jobs.NewTask{ExpiresAt: time.Now().Add(time.Hour)})
	s.DB.Exec(t, "UPDATE {tasks} SET expires_at=created_at")
	expired, _, err := b.Store.EndExpired(s.ctx(), asIs, 10)
	must(t, err)
	s.causes("expired", expired[0].ID, reason.Expired)
}
