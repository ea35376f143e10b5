package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

func codesOf(y wire.Why) string {
	var codes []string
	for _, c := range y.Causes {
		codes = append(codes, string(c.Code))
	}
	return strings.Join(codes, " ")
}

// What the store does not know is added: who holds a lock, that the lock service is down, and the labels that a job requires.
func TestWhyAddsWhatTheReplicaKnows(t *testing.T) {
	locked := func(b *backend) { b.tasks[0].ReasonCode, b.tasks[0].Reason = reason.WaitsForLock, "waits for lock a" }
	for name, c := range map[string]struct {
		change func(b *backend)
		locks  bool
		codes  string
		says   string
	}{
		"as it is": {func(*backend) {}, true, "ready", "the next claim of pool mail"},
		"a lock":   {locked, true, "waits_for_lock", "lock a (held as one of 3 by session  since"},
		"a lock, and another key that begins with it": {func(b *backend) {
			locked(b)
			b.locks = []driver.Info{{Key: "user/ab", Token: 5, Owner: "no"}}
		}, true, "waits_for_lock", "it waits for lock a"},
		"no lock service": {locked, false, "waits_for_lock", "waits for lock a"},
		"the lock service is down": {func(b *backend) {
			locked(b)
			b.locks, b.lockErr = nil, errors.New("connection refused")
		}, true, "lock_service_down waits_for_lock", "connection refused"},
		"when_down: wait": {func(b *backend) { b.health = []wire.Condition{{Name: "lock", Detail: "down for 5s"}} }, true, "lock_service_down", "down for 5s"},
		"when_down: store": {func(b *backend) {
			b.health = []wire.Condition{{Name: "lock", Ready: true, Detail: "down for 5s"}, {Name: "clock"}}
		}, true, "ready", ""},
		"labels": {func(b *backend) {
			b.tasks[0].Job = "backup"
			job := b.set.Jobs["backup"]
			job.RunsOn = map[string]string{"zone": "b"}
			b.set.Jobs["backup"] = job
		}, true, "no_replica", "zone=b"},
	} {
		b := newBackend()
		c.change(b)
		backend := b.backend()
		if !c.locks {
			backend.Locks = nil
		}
		w := ask(t, New(backend, Options{}), "GET", "/api/v1/tasks/task-1/why", "")
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		y := decode[wire.Why](t, w.Body.String())
		if name == "a lock" && len(y.Causes[0].Locks[0].Holders) != 1 {
			t.Errorf("%s: who waits for it is no holder: %s", name, w.Body)
		}
		if name == "a lock, and another key that begins with it" && len(y.Causes[0].Locks[0].Holders) != 0 {
			t.Errorf("%s: %s", name, w.Body)
		}
		if codesOf(y) != c.codes || !strings.Contains(y.Causes[0].Message, c.says) || y.TaskID != "task-1" || y.State != jobs.StatePending || y.At.IsZero() || y.Start == nil {
			t.Errorf("%s: %s: %s", name, codesOf(y), w.Body)
		}
	}
}

// A task without a row is not found, a store that does not answer is unavailable, and reads change nothing.
func TestWhyRefusals(t *testing.T) {
	b := newBackend()
	for target, status := range map[string]int{
		"/api/v1/tasks/nope/why": 404, "/api/v1/tasks/task-1/why?x=1": 400, "/api/v1/tasks/task-2/why": 200, "/api/v1/tasks/a%20b/why": 404,
	} {
		if w := ask(t, b.api(Options{}), "GET", target, ""); w.Code != status {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := ask(t, b.api(Options{}), "POST", "/api/v1/tasks/task-1/why", ""); w.Code != 405 || len(b.changes) > 0 {
		t.Errorf("%d %s %v", w.Code, w.Body, b.changes)
	}
	b.err = jobs.ErrUnavailable
	if w := ask(t, b.api(Options{}), "GET", "/api/v1/tasks/task-1/why", ""); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
