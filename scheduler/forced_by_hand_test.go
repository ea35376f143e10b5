package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// loses starts a manual run of j on s, has its session expired, and returns the task once it is lost. Its handler goes on.
func loses(t *testing.T, s *Scheduler, st *memstore.Store, h given) jobs.Task {
	t.Helper()
	_, task, err := s.RunJob(t.Context(), "j", "ann", "")
	if err != nil || h.now().ID != task.ID {
		t.Fatal(err, task)
	}
	isLost(t, s, st, task)
	return task
}

// isLost has the session of s expired, until its task is lost.
func isLost(t *testing.T, s *Scheduler, st *memstore.Store, task jobs.Task) {
	t.Helper()
	session := s.members.Session().ID
	peers, err := st.Peers(t.Context())
	for _, p := range peers {
		if p.Session == session {
			_, err = st.Expire(t.Context(), session, p.Beat)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	if lost, _, err := st.Task(t.Context(), task.ID); err != nil || lost.State != jobs.StateLost {
		t.Fatalf("%v; it is %+v", err, lost)
	}
	if !s.members.Session().Trusted() {
		t.Fatal("it has not joined again")
	}
}

// A lost attempt keeps its job from manual runs until it must have ended, however often they are asked for. With
// force, which names it as the refusal did, the job runs over it, and the ledger and the log say so; but not over another
// lost attempt, nor over a task that a replica runs.
func TestForceTakesTheSlotOfALostAttemptAlone(t *testing.T) {
	for how, command := range map[string]string{"run": "scheduler jobs run j --force=", "retry": "scheduler tasks retry %s --force="} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &memstore.Store{Database: memstore.New()}
				h, log := newGiven(), &replicatest.Warnings{}
				set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Timeout: time.Hour}}}
				s := runs(t, st, set, Options{ID: "a", Workers: 4, Logger: slog.New(log)})
				time.Sleep(time.Second)
				lost := loses(t, s, st, h)
				log.Take()
				again := func(force string) (jobs.Trigger, jobs.Task, error) {
					if how == "retry" {
						task, err := s.Retry(t.Context(), lost.ID, "bob", force)
						return jobs.Trigger{}, task, err
					}
					return s.RunJob(t.Context(), "j", "bob", force)
				}
				if how == "retry" {
					command = fmt.Sprintf(command, lost.ID)
				}
				for n, force := range []string{"", "", "true", "another"} {
					_, task, err := again(force)
					refused, _ := errors.AsType[*jobs.LostError](err)
					if refused == nil || refused.Force != lost.ID || refused.Job != "j" || !refused.Until.Equal(lost.StartedAt.Add(time.Hour)) {
						t.Errorf("request %d: %+v", n+1, refused)
					}
					if !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), ": a lost attempt may run until ") ||
						!strings.HasSuffix(err.Error(), "; try again then; if you know that it has ended, start it now: "+command+lost.ID) || task.ID != "" ||
						strings.Contains(err.Error(), "force does not name it but") != (force != "") {
						t.Errorf("request %d, forced %q: %v, %+v", n+1, force, err, task)
					}
				}
				if said := log.Take(); len(said) != 0 {
					t.Errorf("said of what was refused: %q", said)
				}
				trigger, task, err := again(lost.ID)
				if err != nil || task.State != jobs.StateRunning || h.now().ID != task.ID {
					t.Fatalf("forced: %v, %+v", err, task)
				}
				if how == "run" && (trigger.ReasonCode != "forced" || !strings.HasPrefix(trigger.Reason, "forced although a lost attempt may run until ")) {
					t.Errorf("its reason is %s: %q", trigger.ReasonCode, trigger.Reason)
				}
				said := log.Take()
				if len(said) != 1 || !strings.HasPrefix(said[0], "a run was forced although a lost attempt of the job may still run job=j task="+task.ID+" by=bob reason=forced although a lost attempt") {
					t.Errorf("said: %q", said)
				}
				for _, force := range []string{"", lost.ID, task.ID} {
					if _, _, err := again(force); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "(task "+task.ID+") has been running on replica a since ") {
						t.Errorf("beside what runs, forced %q: %v", force, err)
					}
				}
				h.finish(nil) // either of them; both have the same handler
				h.finish(nil)
				trigger, task, err = again(lost.ID)
				if err != nil || trigger.Reason != "" || trigger.ReasonCode != "" || h.now().ID != task.ID {
					t.Errorf("forced with nothing in the way: %v, %+v", err, trigger)
				}
				if said := log.Take(); len(said) > 0 && strings.HasPrefix(said[len(said)-1], "a run was forced") {
					t.Errorf("said of that: %q", said)
				}
				h.finish(nil)
			})
		})
	}
}

// A force that names one lost attempt starts nothing over another that was lost meanwhile: the refusal names that one.
func TestForceIsForOneLostAttempt(t *testing.T) {
	for _, how := range []string{"run", "retry"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &memstore.Store{Database: memstore.New()}
				h := newGiven()
				defer close(h.end)
				s := runs(t, st, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Timeout: time.Hour}}}, Options{ID: "a", Workers: 4})
				time.Sleep(time.Second)
				first := loses(t, s, st, h)
				again := func(force string) (task jobs.Task, err error) {
					if how == "retry" {
						return s.Retry(t.Context(), first.ID, "bob", force)
					}
					_, task, err = s.RunJob(t.Context(), "j", "bob", force)
					return task, err
				}
				said := func(force string) string {
					_, err := again(force)
					refused, _ := errors.AsType[*jobs.LostError](err)
					if refused == nil {
						t.Fatalf("forced %q: %v", force, err)
					}
					return refused.Force
				}
				if got := said(""); got != first.ID {
					t.Fatalf("named is %s", got)
				}
				// Before the force arrives, another caller forces a run, and that run is lost, too.
				second, err := again(first.ID)
				if err != nil || h.now().ID != second.ID {
					t.Fatal(err)
				}
				isLost(t, s, st, second)
				if got := said(first.ID); got != second.ID {
					t.Errorf("named is %s", got)
				}
				if third, err := again(second.ID); err != nil || h.now().ID != third.ID {
					t.Errorf("forced over the one that is in the way: %v", err)
				}
			})
		})
	}
}

// A job that allows several runs is run beside a lost attempt without force, and that changes nothing about the attempt: the
// job is still busy once it allows one run only.
func TestARunBesideALostAttemptDoesNotFreeTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h, next := newGiven(), newGiven()
		defer close(h.end)
		set := func(h given, c jobs.Concurrency) jobs.Set {
			return jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Timeout: time.Hour, Concurrency: c}}}
		}
		a := runs(t, st, set(h, jobs.Allow), Options{ID: "a"})
		time.Sleep(time.Second)
		loses(t, a, st, h)
		b := runs(t, &memstore.Store{Database: db}, set(next, jobs.Allow), Options{ID: "b"})
		time.Sleep(time.Second)
		if _, task, err := b.RunJob(t.Context(), "j", "bob", ""); err != nil || next.now().ID != task.ID {
			t.Fatal(err)
		}
		next.finish(nil)
		c := runs(t, &memstore.Store{Database: db}, set(next, jobs.Forbid), Options{ID: "c"})
		time.Sleep(5 * time.Second)
		if _, _, err := c.RunJob(t.Context(), "j", "bob", ""); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "a lost attempt may run until ") {
			t.Errorf("a run when one is allowed alone: %v", err)
		}
	})
}
