package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// byWorkers is a run whose pool mail has workers: each replica is one of them there, and says that what it did is complete. The one that
// is killed has a task of the pool.
func byWorkers() *history.History {
	h := clean(eventful)
	worker := map[string]string{}
	for i, id := range h.Run.Replicas {
		worker[id] = []string{"w1.1-aa", "w2.1-bb", "w3.1-cc"}[i]
	}
	h.Run.Pools[0].Lane = "worker"
	victim := h.Windows[0].Replicas[0]
	sessions := map[string]string{} // of a replica: its worker's
	for _, c := range h.Audit {
		if c.Table == "sessions" {
			r := changed(c)
			sessions[r.ID] = "of " + worker[r.Replica]
		}
	}
	for _, c := range h.Audit {
		for _, r := range []*history.Row{c.Before, c.After} {
			if r != nil && r.Pool == "mail" && r.Replica != "" {
				r.Session, r.Replica = sessions[r.Session], worker[r.Replica]
			}
		}
		if c.Table == "done" && c.After != nil && c.After.Pool == "mail" && c.After.State == "succeeded" {
			h.Said = append(h.Said, history.Said{What: "complete", At: dbTime(c.At), Worker: c.After.Replica, TaskID: c.After.ID, Token: c.After.Token, Status: 200})
		}
	}
	var effects []history.Effect
	for _, e := range h.Effects {
		if e.Pool == "mail" {
			e.Replica, e.What = worker[e.Replica], history.Start
			end := e
			end.What = history.End
			effects = append(effects, e, end)
			continue
		}
		effects = append(effects, e)
	}
	h.Effects = effects
	for id, name := range worker {
		w := history.Worker{Name: history.WorkerOf(name), Started: began, Ended: h.Run.Ended, How: "stopped"}
		if id == victim {
			w.Ended, w.How, w.Exit = h.Windows[0].Began, "killed", -1
		}
		h.Workers = append(h.Workers, w)
	}
	h.Windows[0].Kinds = append(h.Windows[0].Kinds, history.WorkerDown)
	h.Windows[0].Replicas = append(h.Windows[0].Replicas, history.WorkerNamed(worker[victim]))
	h.Said = append(h.Said, history.Said{What: "complete", Stale: true, TaskID: h.Said[0].TaskID, Token: h.Said[0].Token - 1, Worker: h.Said[0].Worker, Status: 409, Code: "stale_token"})
	return h
}

// Each broken promise about workers is found, under its name and no other.
func TestWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		want   Invariant // empty: none
		also   []Invariant
		mutate func(h *history.History)
	}{
		"nothing": {"", nil, func(*history.History) {}},
		"a session that nobody has heard of ends": {"", nil, func(h *history.History) { endsEarly(h, "w1.1-unheard") }},
		"a session that a worker has used ends":   {Degrades, nil, func(h *history.History) { endsEarly(h, h.Said[len(h.Said)-2].Worker) }},
		"a stale end that is accepted": {StaleOwners, nil, func(h *history.History) {
			h.Said[len(h.Said)-1].Status = 200
		}},
		"a stale end that is taken for another one's": {OneEnd, nil, func(h *history.History) {
			s := h.Said[0]
			s.Token += 7
			h.Said = append(h.Said, s)
		}},
		"a completed attempt that is not in the record": {OneEnd, nil, func(h *history.History) {
			for _, d := range h.Audit {
				if d.Table == "done" && d.After != nil && d.After.ID == h.Said[0].TaskID {
					d.After.State = "failed"
				}
			}
		}},
		"a failed attempt that is not in the record": {OneEnd, nil, func(h *history.History) {
			h.Said = append(h.Said, history.Said{What: "fail", At: began, TaskID: h.Said[0].TaskID, Token: 77, Status: 200})
		}},
		"a success that no worker has done": {OneEnd, nil, func(h *history.History) {
			h.Effects = slices.DeleteFunc(h.Effects, func(e history.Effect) bool { return e.What == history.End && e.TaskID == h.Said[0].TaskID })
		}},
		"a killed worker's task that is decided late": {Recovers, nil, func(h *history.History) {
			decide(h, 7*time.Second)
		}},
		"a killed worker's task that waits for ever": {Recovers, []Invariant{Conserved, OneEnd}, func(h *history.History) {
			lost := lostOfWorker(h)
			h.Run.Ended = h.Run.Ended.Add(-time.Second)
			h.Audit = slices.DeleteFunc(h.Audit, func(c history.Change) bool {
				return (c.Table == "tasks" || c.Table == "done" || c.Table == "outputs") && rowID(*changed(c)) == lost.task && c.Seq > lost.seq
			})
			h.Final.Done = slices.DeleteFunc(h.Final.Done, func(r history.Row) bool { return r.ID == lost.task })
			h.Said = slices.DeleteFunc(h.Said, func(s history.Said) bool { return s.TaskID == lost.task })
			h.Effects = slices.DeleteFunc(h.Effects, func(e history.Effect) bool { return e.TaskID == lost.task && e.At.After(lost.at) })
			h.Final.Tasks = append(h.Final.Tasks, history.Row{ID: lost.task, Pool: "mail", State: "ready", IdemKey: "k" + lost.task, CreatedAt: began.UnixMicro()})
		}},
		"a loss of a worker that nothing has struck": {Degrades, []Invariant{Recovers}, func(h *history.History) {
			w := &h.Windows[0]
			w.Kinds, w.Replicas = w.Kinds[:1], w.Replicas[:1]
			w.Kinds[0] = history.LockDown
			h.Processes, h.Workers = nil, nil
		}},
		"a worker that is cut off and goes on":                        {NoOverlap, nil, func(h *history.History) { goesOn(h, history.WorkerCut) }},
		"a worker that is frozen and goes on":                         {"", nil, func(h *history.History) { goesOn(h, history.WorkerFrozen) }},
		"a worker that is cut off and begins beside the next attempt": {NoOverlap, nil, func(h *history.History) { beginsLate(h, history.WorkerCut) }},
		"a worker that is frozen before it begins":                    {"", nil, func(h *history.History) { beginsLate(h, history.WorkerFrozen) }},
		"an answer of 500":                                            {Clean, nil, func(h *history.History) { h.Said[0].Status = 500 }},
		"a worker that ends by itself":                                {Clean, nil, func(h *history.History) { h.Workers[0].How = "ended" }},
		"a worker that stops with an error": {Clean, nil, func(h *history.History) {
			for i := range h.Workers {
				if h.Workers[i].How == "stopped" {
					h.Workers[i].Exit = 1
				}
			}
		}},
		"nothing completed": {NotVacuous, nil, func(h *history.History) {
			h.Said = slices.DeleteFunc(h.Said, func(s history.Said) bool { return !s.Stale })
		}},
		"nothing stale": {NotVacuous, nil, func(h *history.History) {
			h.Said = slices.DeleteFunc(h.Said, func(s history.Said) bool { return s.Stale })
		}},
		"a struck worker without a task": {NotVacuous, []Invariant{Degrades, Recovers}, func(h *history.History) {
			h.Windows[0].Replicas[1] = "w9"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := byWorkers()
			c.mutate(h)
			r := Judge(h)
			if c.want != "" && !slices.Contains(r.Broken(), c.want) {
				t.Errorf("%s was not found:\n%s", c.want, r)
			}
			for _, i := range r.Broken() {
				if i != c.want && !slices.Contains(c.also, i) {
					t.Errorf("%s is not broken:\n%s", i, r)
				}
			}
		})
	}
}

// lostOfWorker is the loss of what the killed worker had.
func lostOfWorker(h *history.History) loss {
	for _, c := range h.Audit {
		if c.Table == "attempts" && c.After != nil && c.After.State == "lost" && ofWorker(c.After.Replica) {
			return loss{at: dbTime(c.At), seq: c.Seq + 1, task: rowID(*c.After), token: c.After.Token}
		}
	}
	panic("the killed worker had nothing")
}

// goesOn makes what struck the worker a fault of a kind, and has it write once more when its task has been lost.
func goesOn(h *history.History, kind history.Kind) {
	lost := lostOfWorker(h)
	h.Windows[0].Kinds[1] = kind
	i := slices.IndexFunc(h.Effects, func(e history.Effect) bool { return e.TaskID == lost.task && e.Token == lost.token })
	e := h.Effects[i]
	e.What, e.At = history.Beat, lost.at.Add(500*time.Millisecond)
	h.Effects = append(h.Effects, e)
}

// beginsLate makes what struck the worker a fault of a kind, and has it begin with its task when the next attempt is at work.
func beginsLate(h *history.History, kind history.Kind) {
	lost := lostOfWorker(h)
	h.Windows[0].Kinds[1] = kind
	next := slices.IndexFunc(h.Effects, func(e history.Effect) bool { return e.TaskID == lost.task && e.Token > lost.token })
	beat := h.Effects[next]
	began := beat.At
	beat.What, beat.At = history.Beat, began.Add(300*time.Millisecond)
	for i, e := range h.Effects {
		if e.TaskID == lost.task && e.Token == lost.token {
			h.Effects[i].At = began.Add(100 * time.Millisecond)
		}
	}
	h.Effects = append(h.Effects, beat)
}

// decide moves the moment in which the loss of the killed worker's task was recorded.
func decide(h *history.History, later time.Duration) {
	lost := lostOfWorker(h)
	for i, c := range h.Audit {
		if c.Seq >= lost.seq-1 && (c.Table == "tasks" || c.Table == "attempts" || c.Table == "done") && rowID(*changed(c)) == lost.task {
			h.Audit[i].At += later.Microseconds()
		}
	}
	for i, e := range h.Effects {
		if e.TaskID == lost.task && e.At.After(lost.at) {
			h.Effects[i].At = e.At.Add(later)
		}
	}
}

// endsEarly has a session end a moment after its heartbeat.
func endsEarly(h *history.History, replica string) {
	at := h.Run.Ended.Add(-10 * time.Second)
	live := history.Row{ID: "early", Replica: replica, Beat: 1}
	dead := live
	dead.Dead = 1
	h.Audit = append(h.Audit,
		history.Change{Seq: 1 << 40, At: at.UnixMicro(), Table: "sessions", After: &live},
		history.Change{Seq: 1<<40 + 1, At: at.Add(time.Second).UnixMicro(), Table: "sessions", Before: &live, After: &dead})
}
