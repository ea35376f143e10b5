//go:build linux

package arena

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// operator does what operators do by hand: runs jobs, cancels, changes and retries tasks, pauses pools and suspends jobs
// for a moment, has due times skipped, changes limits of pools, and resumes what has been paused since it fails.
type operator struct {
	*Clients
	rand *rand.Rand
	// held is what may be paused, suspended or limited, with the call that ends it and when that is due.
	held map[string]undo
}

type undo struct {
	history.Ask
	path string
	due  time.Time
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
		m.next()(ctx)
	}
}

// next is what the operator does next. What it has not done yet, or what has never worked, comes as often as all the rest: on a busy machine it
// does less in a run than there are kinds of calls.
func (m *operator) next() func(ctx context.Context) {
	all := []struct {
		what   string
		weight int
		do     func(ctx context.Context)
	}{
		{"run", 2, m.run},
		{"cancel", 3, m.cancel},
		{"retry", 2, m.retry},
		{"pause", 1, func(ctx context.Context) {
			m.hold(ctx, "pause", "/api/v1/pools/", []string{"narrow", "web", "mixed", poolOfWorkers}[m.rand.IntN(4)])
		}},
		{"suspend", 1, func(ctx context.Context) {
			m.hold(ctx, "suspend", "/api/v1/jobs/", []string{"tick-b", "queue-two", "replace", "open"}[m.rand.IntN(4)])
		}},
		{"limit", 1, m.limit},
		{"skip", 1, m.skip},
		{"cancel many", 1, func(ctx context.Context) { m.many(ctx, "cancel") }},
		{"retry many", 1, func(ctx context.Context) { m.many(ctx, "retry") }},
		{"resume", 1, func(ctx context.Context) { m.resume(ctx, m.rand) }},
		{"update", 2, m.update},
	}
	var deck, missing []func(ctx context.Context)
	for _, a := range all {
		for range a.weight {
			deck = append(deck, a.do)
		}
		if worked, _ := m.caller.asked.Load(a.what); worked != true {
			missing = append(missing, a.do)
		}
	}
	if len(missing) > 0 && m.rand.IntN(2) == 0 {
		deck = missing
	}
	return deck[m.rand.IntN(len(deck))]
}

func (m *operator) run(ctx context.Context) {
	all := []string{"tick-a", "again", "both", "fenced", "flaky", "queue", "replace-two", "pair"}
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

// update changes a task that a list has just shown to be pending: its tags alone, or its priority, too, which takes it out of the list in which it
// waits.
func (m *operator) update(ctx context.Context) {
	r := m.any(m.rand)
	var page struct{ Items []struct{ ID, Job string } }
	if _, err := m.caller.get(ctx, r.URL()+"/api/v1/tasks?limit=50&state=pending", &page); err != nil {
		return
	}
	page.Items = slices.DeleteFunc(page.Items, func(t struct{ ID, Job string }) bool { return t.Job != "" })
	if len(page.Items) == 0 {
		return
	}
	body := map[string]any{"tags": []string{fmt.Sprint("changed-", m.rand.IntN(1000))}}
	if m.rand.IntN(2) == 0 {
		body["priority"] = m.rand.IntN(5) - 2
	}
	id := page.Items[m.rand.IntN(len(page.Items))].ID
	m.caller.write(m.caller.askBy(ctx, http.MethodPatch, r, history.Ask{What: "update", Target: id}, "/api/v1/tasks/"+id, nil, body, nil))
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
		m.held[name] = undo{history.Ask{What: "resume", Target: name}, path + name + "/resume", time.Now().Add(time.Second + rand.N(2*time.Second))}
	}
}

// skip has the next due times of a job skipped, or none of them again.
func (m *operator) skip(ctx context.Context) {
	names := []string{"tick-a", "both", "queue", "jittered", "closed"}
	a := history.Ask{What: "skip", Target: names[m.rand.IntN(len(names))], N: m.rand.IntN(4)}
	m.caller.write(m.caller.ask(ctx, m.any(m.rand), a, "/api/v1/jobs/"+a.Target+"/skip-next", nil, map[string]int{"n": a.N}, nil))
}

// many cancels or retries some tasks of a pool in one call.
func (m *operator) many(ctx context.Context, what string) {
	pools := []string{"web", "ordered", "mixed", "unique", poolOfWorkers, poolThatFails}
	pool := pools[m.rand.IntN(len(pools))]
	var answer struct {
		Tasks []struct {
			ID string
			As string `json:"retried_as"`
		}
	}
	body := map[string]any{"pool": pool, "limit": 1 + m.rand.IntN(4)}
	a := m.caller.ask(ctx, m.any(m.rand), history.Ask{What: what + " many", Target: pool}, "/api/v1/tasks/"+what, nil, body, &answer)
	if a.Answer == ok {
		for _, t := range answer.Tasks {
			a.TaskIDs = append(a.TaskIDs, cmp.Or(t.As, t.ID))
		}
	}
	m.caller.write(a)
}

// resume ends the pause of the pool that fails, if there is one.
func (c *Clients) resume(ctx context.Context, r *rand.Rand) {
	c.caller.write(c.caller.ask(ctx, c.any(r), history.Ask{What: "resume", Target: poolThatFails}, "/api/v1/pools/"+poolThatFails+"/resume", nil, nil, nil))
}

// limit sets limits of a pool that has some, or gives it those of the file again.
func (m *operator) limit(ctx context.Context) {
	a := history.Ask{What: "limit", Target: []string{"narrow", "rated"}[m.rand.IntN(2)]}
	var body any = map[string]bool{"reset": true}
	switch set := m.rand.IntN(4) > 0; {
	case !set:
		a.Limits = &history.Limits{} // those of the file
	case a.Target == "narrow":
		a.Limits = &history.Limits{MaxRunning: 1 + m.rand.IntN(4)}
		body = map[string]int{"max_running": a.Limits.MaxRunning}
	default:
		a.Limits = &history.Limits{Rate: 5 + m.rand.IntN(30), Burst: 1 + m.rand.IntN(4)}
		body = map[string]any{"rate": fmt.Sprintf("%d/s", a.Limits.Rate), "burst": a.Limits.Burst}
	}
	path := "/api/v1/pools/" + a.Target + "/limits"
	a = m.caller.ask(ctx, m.any(m.rand), a, path, nil, body, nil)
	m.caller.write(a)
	if a.Answer != refused { // when the clients stop, what has to wait has not to wait for long
		m.held["limits of "+a.Target] = undo{history.Ask{What: "limit", Target: a.Target, Limits: &history.Limits{}}, path + "?reset=true", time.Now().Add(time.Hour)}
	}
}

// end resumes what was held long enough; calls without an answer are tried again later.
func (m *operator) end(ctx context.Context) {
	for name, u := range m.held {
		if time.Now().Before(u.due) {
			continue
		}
		a := m.caller.ask(ctx, m.any(m.rand), u.Ask, u.path, nil, nil, nil)
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
			return errors.Join(fmt.Errorf("still paused, suspended or limited: %v", slices.Collect(maps.Keys(m.held))), ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
	return nil
}
