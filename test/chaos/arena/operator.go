//go:build linux

package arena

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// operator does what operators do by hand: runs jobs, cancels and retries tasks, pauses pools and suspends jobs
// for a moment.
type operator struct {
	*Clients
	rand *rand.Rand
	// held is what may be paused or suspended, with the call that ends it and when that is due.
	held map[string]undo
}

type undo struct {
	what, target, path string
	due                time.Time
}

// operate runs until ctx ends.
func (m *operator) operate(ctx context.Context) {
	m.held = map[string]undo{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(300*time.Millisecond + rand.N(400*time.Millisecond)):
		}
		m.end(ctx)
		switch m.rand.IntN(10) {
		case 0, 1:
			m.run(ctx)
		case 2, 3, 4:
			m.cancel(ctx)
		case 5, 6:
			m.retry(ctx)
		case 7:
			m.hold(ctx, "pause", "/api/v1/pools/", "narrow")
		case 8:
			m.hold(ctx, "suspend", "/api/v1/jobs/", "tick-b")
		}
	}
}

func (m *operator) run(ctx context.Context) {
	all := []string{"tick-a", "again", "both", "fenced", "flaky"}
	name := all[m.rand.IntN(len(all))]
	var answer struct{ Task struct{ ID string } }
	a := m.caller.ask(ctx, m.any(m.rand), history.Ask{What: "run", Target: name}, "/api/v1/jobs/"+name+"/run", nil, nil, &answer)
	if a.Answer == ok {
		a.TaskIDs = []string{answer.Task.ID}
	}
	m.caller.write(a)
}

// cancel is of any task, most of which have ended, or of one that a list has just shown to be open.
func (m *operator) cancel(ctx context.Context) {
	r, id := m.any(m.rand), m.acked.pick(m.rand)
	var page struct{ Items []struct{ ID string } }
	states := []string{"pending", "running"}
	if _, err := m.caller.get(ctx, r.URL()+"/api/v1/tasks?limit=20&state="+states[m.rand.IntN(len(states))], &page); err == nil && len(page.Items) > 0 && m.rand.IntN(3) > 0 {
		id = page.Items[m.rand.IntN(len(page.Items))].ID
	}
	if id != "" {
		m.caller.write(m.caller.ask(ctx, r, history.Ask{What: "cancel", Target: id}, "/api/v1/tasks/"+id+"/cancel", nil, nil, nil))
	}
}

// retry makes a new task of one that did not succeed.
func (m *operator) retry(ctx context.Context) {
	r := m.any(m.rand)
	var page struct {
		Items []struct{ ID, Pool, Job string }
	}
	states := []string{"failed", "cancelled", "lost"}
	if _, err := m.caller.get(ctx, r.URL()+"/api/v1/tasks?limit=20&state="+states[m.rand.IntN(len(states))], &page); err != nil {
		return
	}
	page.Items = slices.DeleteFunc(page.Items, func(t struct{ ID, Pool, Job string }) bool { return t.Job != "" })
	if len(page.Items) == 0 {
		return
	}
	id := page.Items[m.rand.IntN(len(page.Items))].ID
	var answer struct{ ID string }
	a := m.caller.ask(ctx, r, history.Ask{What: "retry", Target: id}, "/api/v1/tasks/"+id+"/retry", nil, nil, &answer)
	if a.Answer == ok {
		a.TaskIDs = []string{answer.ID}
	}
	m.caller.write(a)
}

// hold pauses a pool or suspends a job for a moment.
func (m *operator) hold(ctx context.Context, what, path, name string) {
	a := m.caller.ask(ctx, m.any(m.rand), history.Ask{What: what, Target: name}, path+name+"/"+what, nil, nil, nil)
	m.caller.write(a)
	if a.Answer != refused {
		m.held[name] = undo{"resume", name, path, time.Now().Add(time.Second + rand.N(2*time.Second))}
	}
}

// end resumes what was held long enough; calls without an answer are tried again later.
func (m *operator) end(ctx context.Context) {
	for name, u := range m.held {
		if time.Now().Before(u.due) {
			continue
		}
		a := m.caller.ask(ctx, m.any(m.rand), history.Ask{What: u.what, Target: u.target}, u.path+u.target+"/"+u.what, nil, nil, nil)
		m.caller.write(a)
		if a.Answer == ok {
			delete(m.held, name)
		}
	}
}

// takeBack resumes everything.
func (m *operator) takeBack(ctx context.Context) error {
	for name, u := range m.held {
		u.due = time.Time{}
		m.held[name] = u
	}
	for m.end(ctx); len(m.held) > 0; m.end(ctx) {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("still paused or suspended: %v", slices.Collect(maps.Keys(m.held))), ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
	return nil
}
