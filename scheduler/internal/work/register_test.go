package work

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// states are those of all claims of a task.
func (r *register) states(task string) (states []taskState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, e := range r.tasks {
		if k.task == task {
			states = append(states, e.state)
		}
	}
	return states
}

func (r *register) knows(task string) bool { return len(r.states(task)) > 0 }

func (r *register) holds(task string) bool { return slices.Contains(r.states(task), taskRecording) }

func (r *register) waits(task string) bool { return slices.Contains(r.states(task), taskQueued) }

func (r *register) attemptAt(task string) *attempt {
	for _, a := range r.attempts() {
		if a.task.ID == task {
			return a
		}
	}
	return nil
}

// forget takes a task to the end of its states.
func (r *register) forget(a *attempt) {
	r.record(a.task)
	r.recorded(a.task)
}

// A task goes from state to state, is in one at a time, and is this replica's in each of them.
func TestTheStatesOfATask(t *testing.T) {
	task := &jobs.Task{ID: "1", Token: 7, Pool: "p"}
	key := keyOf(task)
	c := claimed{task: task}
	type step struct {
		name string
		do   func(r *register)
		want taskState
	}
	queue := step{"queue", func(r *register) { r.queue(c) }, taskQueued}
	next := step{"next", func(r *register) { r.next("p") }, taskRunning}
	unqueue := step{"unqueue", func(r *register) { r.unqueue("p", 0) }, taskQueued}
	start := step{"start", func(r *register) { r.start(c) }, taskRunning}
	run := step{"run", func(r *register) { r.run(&attempt{task: task}) }, taskRunning}
	record := step{"record", func(r *register) { r.record(task) }, taskRecording}
	recorded := step{"recorded", func(r *register) { r.recorded(task) }, taskUnknown}
	for _, way := range [][]step{
		{queue, next, run, record, recorded},
		{queue, next, record, recorded},
		{queue, unqueue, record, recorded},
		{start, run, record, recorded},
		{start, record, recorded},
		{record, recorded},
	} {
		r := newRegister()
		for _, s := range way {
			s.do(r)
			state, a := r.find(key)
			if state != s.want || (a != nil) != (s.name == "run") {
				t.Errorf("after %s of %v: state %d with the attempt %v, want %d", s.name, way, state, a, s.want)
			}
			if n := r.attemptsByPool()["p"]; (n == 1) != (s.name == "run") {
				t.Errorf("after %s %d attempts are under way", s.name, n)
			}
		}
		if len(r.tasks) > 0 || r.queued("p") > 0 || r.unsettled != 0 {
			t.Errorf("%+v is left", r)
		}
	}
}

// The queue does not keep a task that a worker has: its payload may be large, and the queue's memory is used on.
func TestTheQueueLetsGoOfATask(t *testing.T) {
	r := newRegister()
	r.queue(claimed{task: &jobs.Task{ID: "1", Pool: "p"}}, claimed{task: &jobs.Task{ID: "2", Pool: "p"}})
	q := r.queues["p"]
	if c, of, ok := r.next("p"); !ok || of != 2 || c.task.ID != "1" || q[0].task != nil || q[1].task == nil {
		t.Errorf("next is %v of %d, and the queue has %v", c.task, of, q)
	}
}

// The next claim of a task is another entry: the state of one changes nothing of the other.
func TestAClaimHasItsToken(t *testing.T) {
	r := newRegister()
	first, second := &jobs.Task{ID: "1", Token: 7, Pool: "p"}, &jobs.Task{ID: "1", Token: 8, Pool: "p"}
	a := &attempt{task: first}
	r.run(a)
	if state, _ := r.find(keyOf(second)); state != taskUnknown {
		t.Error("a claim is known by the token of another")
	}
	r.queue(claimed{task: second})
	r.record(first)
	r.recorded(first)
	if state, _ := r.find(keyOf(second)); state != taskQueued {
		t.Errorf("the end of the first claim made %d of the second", state)
	}
	if state, a := r.find(keyOf(first)); state != taskUnknown || a != nil {
		t.Error("the first claim is still known")
	}
}

// The queue of a pool is first in, first out, and no other pool's.
func TestTheQueueOfAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegister()
		for n := range 4 {
			r.queue(claimed{task: &jobs.Task{ID: fmt.Sprint(n), Pool: "p"}, since: time.Now()})
			time.Sleep(time.Second)
		}
		r.queue(claimed{task: &jobs.Task{ID: "other", Pool: "q"}, since: time.Now()})
		if c, of, ok := r.next("p"); c.task.ID != "0" || of != 4 || !ok || r.queued("p") != 3 || r.queued("q") != 1 {
			t.Errorf("the first is %+v of %d, %t; %d and %d are left", c, of, ok, r.queued("p"), r.queued("q"))
		}
		if late := r.unqueue("p", 3*time.Second+1); len(late) > 0 {
			t.Errorf("%v have waited too long", late)
		}
		if late := r.unqueue("p", 2*time.Second); len(late) != 2 || late[0].task.ID != "1" || late[1].task.ID != "2" || !r.waits("1") {
			t.Errorf("%v have waited too long, and count as queued: %t", late, r.waits("1"))
		}
		if late := r.unqueue("p", 0); len(late) != 1 || late[0].task.ID != "3" || r.queued("p") != 0 || r.queued("q") != 1 {
			t.Errorf("all of them are %v; %d and %d are left", late, r.queued("p"), r.queued("q"))
		}
		if c, of, ok := r.next("p"); ok || of != 0 {
			t.Errorf("an empty queue has %+v of %d", c, of)
		}
	})
}

// allRecorded is closed once the last result is acknowledged, and at once if there is none.
func TestAllIsRecorded(t *testing.T) {
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	r := newRegister()
	if !closed(r.allRecorded()) {
		t.Error("nothing is to be recorded, and it is waited for")
	}
	one, two := &jobs.Task{ID: "1"}, &jobs.Task{ID: "2"}
	r.record(one)
	r.record(two)
	all := r.allRecorded()
	if r.recorded(one); closed(all) {
		t.Error("one result waits, and all is recorded")
	}
	if r.recorded(two); !closed(all) {
		t.Error("all is recorded, and it is waited for")
	}
}
