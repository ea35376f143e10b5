package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

type task struct {
	row   history.Row
	begun bool
	ends  time.Time
	beat  time.Time
	lost  time.Time // when its loss is noticed
}

func (m *model) lane(r history.Row) string {
	for _, j := range m.h.Run.Jobs {
		if j.Name == r.Job {
			return j.Lane
		}
	}
	for _, p := range m.h.Run.Pools {
		if p.Name == r.Pool {
			return p.Lane
		}
	}
	return ""
}

func (m *model) effect(t *task, what string) {
	e := history.Effect{
		What: what, At: m.now, Job: t.row.Job, Pool: t.row.Pool, TaskID: t.row.ID, Attempt: int(t.row.Attempt), Token: t.row.Token, Replica: t.row.Replica,
	}
	if t.row.Job != "" {
		e.ScheduledAt = time.UnixMicro(t.row.At).UTC()
	}
	m.h.Effects = append(m.h.Effects, e)
}

func (m *model) end(t *task, state, reason string) {
	done := t.row
	done.State, done.Reason, done.FinishedAt = state, reason, m.now.UnixMicro()
	m.h.Final.Done = append(m.h.Final.Done, done)
	m.change("done", nil, &done)
	if state != "lost" {
		m.change("outputs", nil, &history.Row{TaskID: done.ID, Attempt: done.Attempt, Output: fmt.Sprintf("token %d\nand more\n", done.Token)})
	}
	m.change("tasks", &t.row, nil)
	delete(m.tasks, t.row.ID)
	if m.busy[t.row.Job] == t.row.ID {
		delete(m.busy, t.row.Job)
	}
	for i := range m.h.Final.Triggers {
		if g := &m.h.Final.Triggers[i]; g.TaskID == t.row.ID {
			before := *g
			g.Outcome, g.Result, g.FinishedAt = "ran", state, done.FinishedAt
			if state == "lost" {
				g.Outcome, g.Result, g.Reason = "lost", "", reason
			}
			m.change("triggers", &before, g)
		}
	}
}

func (m *model) lose(t *task) {
	retries := t.row.Job == "again" || t.row.Pool == "mail"
	if !retries {
		m.end(t, "lost", "replica lost")
		return
	}
	lost := t.row
	lost.TaskID, lost.ID, lost.State, lost.Reason = t.row.ID, "", "lost", "replica lost"
	m.change("attempts", nil, &lost)
	m.h.Final.Attempts = append(m.h.Final.Attempts, lost)
	before := t.row
	t.row.State, t.row.Session, t.row.Replica, t.lost = "ready", "", "", time.Time{}
	m.change("tasks", &before, &t.row)
}

func (m *model) enqueue() {
	if m.rand.IntN(3) > 0 {
		return
	}
	pool := m.h.Run.Pools[m.rand.IntN(2)].Name
	t := &task{row: history.Row{ID: m.id(), Pool: pool, State: "ready", CreatedAt: m.now.UnixMicro()}}
	t.row.IdemKey = "k" + t.row.ID
	m.tasks[t.row.ID] = t
	m.change("idempotency", nil, &history.Row{TaskID: t.row.ID, Pool: pool, IdemKey: t.row.IdemKey})
	m.change("tasks", nil, &t.row)
	ask := history.Ask{What: "enqueue", Target: pool, Key: t.row.IdemKey, Called: m.now, Returned: m.now.Add(time.Millisecond), Answer: "ok", Status: 201, TaskIDs: []string{t.row.ID}, Replica: m.replica()}
	if m.rand.IntN(20) == 0 {
		ask.Answer, ask.Status, ask.TaskIDs = "unknown", 0, nil
	}
	m.h.Asks = append(m.h.Asks, ask)
}

func (m *model) claim() {
	held := 0
	for _, t := range m.tasks {
		if t.row.Pool == "mail" && t.row.State == running {
			held++
		}
	}
	for _, t := range sortedTasks(m.tasks) {
		if t.row.State != "ready" || t.row.Pool == "mail" && held >= 4 {
			continue
		}
		if t.row.Pool == "mail" {
			held++
		}
		by := m.replica()
		before := t.row
		t.row.State, t.row.Replica, t.row.Session, t.row.StartedAt = running, by, m.session[by], m.now.UnixMicro()
		t.row.Attempt++
		t.row.Token++
		if t.row.Job != "" {
			m.fence[t.row.Job]++
			t.row.Token = m.fence[t.row.Job]
		}
		m.change("tasks", &before, &t.row)
		m.starts(t, 200*time.Millisecond)
	}
}

func sortedTasks(all map[string]*task) []*task {
	return slices.SortedFunc(maps.Values(all), func(a, b *task) int { return strings.Compare(a.row.ID, b.row.ID) })
}
