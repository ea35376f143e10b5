package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// An attempt with a lock may run no longer than its session is trusted, unless the loss of the lock does not end it.
func TestUntilWithLocks(t *testing.T) {
	p, err := New(jobs.Set{Jobs: map[string]jobs.Job{
		"none":      {Handler: replicatest.Nothing{}, Schedule: "@daily"},
		"cancels":   {Handler: replicatest.Nothing{}, Schedule: "@daily", Locks: []jobs.Lock{{Key: "a", OnLost: jobs.LockContinues}, {Key: "b"}}},
		"continues": {Handler: replicatest.Nothing{}, Schedule: "@daily", Locks: []jobs.Lock{{Key: "a", OnLost: jobs.LockContinues}}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, trusted := range map[string]bool{"none": false, "cancels": true, "continues": false} {
		if until := p.Jobs[name].Until(time.Unix(1_800_000_000, 0)); until.IsZero() != trusted {
			t.Errorf("%s: until %v", name, until)
		}
	}
}

// The locks of a task have the keys of the lock service. Two of them with one key, for a payload, are an error.
func TestLocksOfATask(t *testing.T) {
	p, err := New(jobs.Set{Pools: map[string]jobs.Pool{
		"p": {Handler: replicatest.Nothing{}, LockWait: time.Minute, Locks: []jobs.Lock{
			{Key: "orders-db", Mode: jobs.LockShared}, {Key: "user/t-{{.payload.t}}", Limit: 3, OnLost: jobs.LockContinues}, {Key: "t-{{.payload.u}}"},
		}},
	}, Jobs: map[string]jobs.Job{"j": {Pool: "p", Payload: map[string]any{"t": 1, "u": 2}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, wait, err := p.Locks(jobs.Task{Pool: "p", Payload: []byte(`{"t":1,"u":2}`)})
	if err != nil || wait != time.Minute || len(all) != 3 {
		t.Fatalf("%+v, %v, %v", all, wait, err)
	}
	for i, want := range []Lock{
		{"orders-db", locks.Request{Key: "user/orders-db", Mode: locks.Shared, Limit: 1}, false},
		{"t-1", locks.Request{Key: "user/t-1", Limit: 3}, true},
		{"t-2", locks.Request{Key: "user/t-2", Limit: 1}, false},
	} {
		if all[i] != want {
			t.Errorf("%+v, want %+v", all[i], want)
		}
	}
	if _, _, err := p.Locks(jobs.Task{Pool: "p", Payload: []byte(`{"t":1,"u":1}`)}); err == nil || !strings.Contains(err.Error(), "t-1: two locks of the task") {
		t.Error(err)
	}
	if _, _, err := p.Locks(jobs.Task{Pool: "p", Payload: []byte(`{"t":1}`)}); err == nil || !strings.Contains(err.Error(), "no u") {
		t.Error(err)
	}
	if wrong := errors.Join(p.CheckLocks(locks.Caps{Name: "weak"})...); wrong == nil || wrong.Error() !=
		"pools.p.locks[0].mode: the lock service, weak, has no shared locks; remove mode, or choose another lock.driver or mode\n"+
			"pools.p.locks[1].limit: the lock service, weak, has no limits; remove limit, or choose another lock.driver or mode" {
		t.Error(wrong)
	}
	if wrong := p.CheckLocks(locks.Caps{Shared: true, Limit: true}); len(wrong) > 0 || !p.HasLocks() || p.WithLocks() != "pools.p" {
		t.Error(wrong, p.WithLocks())
	}
}
