package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// began is when every run of the model begins.
var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	tick    = 100 * time.Millisecond
	healthy = 20 * time.Second // before the fault
	window  = 8 * time.Second
	after   = 32 * time.Second // what follows it, in runs that are not for measuring
)

// model plays a run that keeps every promise: jobs and pools on three replicas, one of which is
// killed once and comes back.
type model struct {
	h    *history.History
	rand *rand.Rand
	now  time.Time

	tasks   map[string]*task  // that have not ended
	busy    map[string]string // job → its task
	fence   map[string]int64
	cursor  map[string]time.Time
	down    string // replica
	session map[string]string
	beats   map[string]int64
	ids     int
}

// clean plays a run. Different seeds are different runs.
func clean(seed uint64) *history.History { return lasting(seed, after) }

// lasting is a run that continues for a while after its fault.
func lasting(seed uint64, after time.Duration) *history.History {
	m := &model{
		h: &history.History{Run: history.Run{
			Format: history.Format, Cell: "mariadb+redis", Seed: seed, SessionTTL: 3 * time.Second, LockTTL: 3 * time.Second, DrainTimeout: 5 * time.Second,
			WhenDown: "store", Began: began, Quiesced: began.Add(healthy + window + after - 9*time.Second), Ended: began.Add(healthy + window + after),
			Replicas: []string{"a", "b", "c"}, Minimum: history.Minimum{Triggers: 50, Tasks: 50, Faults: 1},
			Jobs: []history.Job{
				{Name: "each", Due: every(time.Second, 0), Concurrency: "forbid", OnLost: "fail", Lane: "exec", Takes: 300 * time.Millisecond, CatchUp: "latest", Grace: 10 * time.Second},
				{Name: "slow", Due: every(5*time.Second, 0), Concurrency: "forbid", OnLost: "fail", Lane: "exec", Takes: 6 * time.Second, CatchUp: "none", Grace: 10 * time.Second},
				{Name: "again", Due: append(every(7*time.Second, 0), every(14*time.Second, time.Second)...), Concurrency: "allow", OnLost: "retry", Lane: "http", Takes: 500 * time.Millisecond, CatchUp: "all", Grace: 10 * time.Second},
			},
			Pools: []history.Pool{{Name: "mail", OnLost: "retry", Retries: 1, MaxRunning: 4, Lane: "http"}, {Name: "once", OnLost: "fail", Lane: "exec"}},
		}},
		rand: rand.New(rand.NewPCG(seed, 1)), tasks: map[string]*task{}, busy: map[string]string{},
		fence: map[string]int64{}, cursor: map[string]time.Time{}, session: map[string]string{}, beats: map[string]int64{},
	}
	m.play()
	return m.h
}

func every(period, offset time.Duration) []history.Every {
	return []history.Every{{Period: period, Offset: offset}}
}

func (m *model) play() {
	r := &m.h.Run
	m.now = r.Began.Add(-time.Second)
	for _, id := range r.Replicas {
		m.join(id)
	}
	for _, j := range r.Jobs {
		m.cursor[j.Name] = m.now
		row := history.Row{Job: j.Name, Cursor: m.now.UnixMicro()}
		m.change("jobs", nil, &row)
	}
	killed := r.Began.Add(healthy + time.Duration(m.rand.IntN(1000))*time.Millisecond)
	healed := killed.Add(window)
	victim := r.Replicas[m.rand.IntN(3)]
	for struck := false; m.now.Before(r.Ended); m.now = m.now.Add(tick) {
		if !struck && !m.now.Before(killed) {
			if struck = m.works(victim); struck {
				m.kill(victim)
			} else { // a replica without work is no victim
				victim = r.Replicas[(slices.Index(r.Replicas, victim)+1)%3]
				killed, healed = killed.Add(tick), healed.Add(tick)
			}
		}
		if m.down != "" && m.now.After(healed) {
			m.down = ""
			m.join(victim)
		}
		m.beat(killed)
		m.work()
		if m.now.Before(r.Quiesced.Add(-3 * time.Second)) {
			m.enqueue()
		}
		m.decide()
		m.claim()
		m.probe()
		if m.now.After(r.Began.Add(34*time.Second)) && m.now.Before(r.Quiesced.Add(-5*time.Second)) && m.now.Sub(r.Began)%(10*time.Second) == 0 {
			m.byHand()
		}
		m.aside()
		m.execs()
	}
	m.h.Windows = append(m.h.Windows, history.Window{
		Nemesis: "kill", Kinds: []history.Kind{history.ReplicaDown}, Replicas: []string{victim}, Began: killed, Healed: healed, Applied: true, Evidence: "gone",
	})
	m.h.Leftovers = []history.Leftover{{What: "redis keys", Before: 10, After: 11, Allowed: 2}}
	for _, j := range r.Jobs {
		m.h.Final.Jobs = append(m.h.Final.Jobs, history.Row{Job: j.Name, Cursor: m.cursor[j.Name].UnixMicro(), Fence: m.fence[j.Name]})
	}
	for _, t := range m.tasks {
		m.h.Final.Tasks = append(m.h.Final.Tasks, t.row)
	}
	for _, id := range r.Replicas {
		p := history.Process{Replica: id, Started: r.Began.Add(-2 * time.Second), Ready: r.Began, Ended: r.Ended.Add(time.Second), How: "drained", Told: r.Ended.Add(500 * time.Millisecond)}
		if id == victim {
			m.h.Processes = append(m.h.Processes, history.Process{Replica: id, Started: p.Started, Ready: p.Ready, Ended: killed, Exit: -1, How: "killed"})
			p.Started, p.Ready = healed, healed.Add(tick)
		}
		m.h.Processes = append(m.h.Processes, p)
	}
}

func (m *model) change(table string, before, after *history.Row) {
	copied := func(r *history.Row) *history.Row {
		if r == nil {
			return nil
		}
		c := *r
		return &c
	}
	m.h.Audit = append(m.h.Audit, history.Change{Seq: int64(len(m.h.Audit)) + 1, At: m.now.UnixMicro(), Table: table, Before: copied(before), After: copied(after)})
}

func (m *model) id() string { m.ids++; return fmt.Sprintf("t%d", m.ids) }

func (m *model) join(replica string) {
	m.session[replica] = fmt.Sprintf("s%s%d", replica, len(m.h.Audit))
	m.change("sessions", nil, &history.Row{ID: m.session[replica], Replica: replica})
}

// beat writes a heartbeat of live replicas each second, and expires killed ones.
func (m *model) beat(killed time.Time) {
	for _, r := range m.h.Run.Replicas {
		was := history.Row{ID: m.session[r], Replica: r, Beat: m.beats[r]}
		is := was
		switch silent := m.now.Sub(killed); {
		case r != m.down && m.now.Sub(m.h.Run.Began)%time.Second == 0:
			m.beats[r]++
			is.Beat++
		case r == m.down && silent > m.h.Run.SessionTTL && silent <= m.h.Run.SessionTTL+tick:
			is.Dead = 1
		default:
			continue
		}
		m.change("sessions", &was, &is)
	}
}

func (m *model) kill(replica string) {
	m.down = replica
	dead := m.now.Add(m.h.Run.SessionTTL)
	for _, t := range m.tasks {
		if t.row.State == running && t.row.Replica == replica {
			t.lost = dead.Add(tick)
		}
	}
}

// replica is one that lives.
func (m *model) replica() string {
	for {
		if r := m.h.Run.Replicas[m.rand.IntN(3)]; r != m.down {
			return r
		}
	}
}

func (m *model) decide() {
	for _, j := range m.h.Run.Jobs {
		at := dueNext(j.Due, m.cursor[j.Name])
		if at.After(m.now) {
			continue
		}
		m.cursor[j.Name] = at
		by := m.replica()
		g := history.Row{Job: j.Name, At: at.UnixMicro(), Count: 1, Cause: "schedule", Replica: by, DecidedAt: m.now.UnixMicro()}
		if holder := m.busy[j.Name]; holder != "" && j.Concurrency == "forbid" {
			g.Outcome, g.Reason = "skipped", m.has(holder)
		} else {
			m.fence[j.Name]++
			g.TaskID, g.StartedAt = m.id(), g.DecidedAt
			t := &task{row: history.Row{
				ID: g.TaskID, Job: j.Name, Pool: "default", At: g.At, State: running, Attempt: 1, Token: m.fence[j.Name],
				Session: m.session[by], Replica: by, CreatedAt: g.DecidedAt, StartedAt: g.DecidedAt,
			}}
			m.tasks[g.TaskID], m.busy[j.Name] = t, g.TaskID
			m.change("tasks", nil, &t.row)
			m.starts(t, j.Takes)
		}
		m.h.Final.Triggers = append(m.h.Final.Triggers, g)
		m.change("triggers", nil, &g)
	}
}

// has says that a task has its job's slot.
func (m *model) has(id string) string {
	row := m.tasks[id].row
	run := "the run of " + dbTime(row.At).UTC().Format(time.RFC3339Nano) + " (task " + id + ")"
	switch {
	case row.State == running:
		return run + " has been running on replica " + row.Replica + " since " + dbTime(row.StartedAt).UTC().Format(time.RFC3339)
	default:
		return run + " has been pending in pool default since " + m.now.UTC().Format(time.RFC3339)
	}
}

func (m *model) starts(t *task, takes time.Duration) {
	t.begun, t.beat = false, m.now
	t.ends = m.now.Add(takes + time.Duration(m.rand.IntN(100))*time.Millisecond)
}

// work moves what runs on: first words, beats, ends, losses.
func (m *model) work() {
	for _, t := range sortedTasks(m.tasks) {
		if t.row.State != running {
			continue
		}
		gone := !t.lost.IsZero()
		if gone && m.now.After(t.lost) {
			m.lose(t)
			continue
		}
		if gone {
			continue
		}
		lane := m.lane(t.row)
		if !t.begun {
			t.begun = true
			m.effect(t, map[string]string{"exec": history.Start, "http": history.Fenced}[lane])
		}
		if !m.now.Before(t.ends) {
			if lane == "exec" {
				m.effect(t, history.End)
			}
			m.end(t, "succeeded", "")
			continue
		}
		if lane == "exec" {
			m.effect(t, history.Beat)
		}
	}
}

func (m *model) probe() {
	for _, r := range m.h.Run.Replicas {
		up := r != m.down
		m.h.Probes = append(m.h.Probes, history.Probe{At: m.now, Replica: r, Live: up, Ready: up})
	}
}
