package sim

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// entry is one thing that happened. It is made text only if somebody asks.
type entry struct {
	at     time.Time
	by     string
	format string
	args   []any
	change memstore.Change
}

func (e entry) String() string {
	at := e.at.Format("02 15:04:05.000")
	if e.format != "" {
		return fmt.Sprintf("%s %-6s %s", at, e.by, fmt.Sprintf(e.format, e.args...))
	}
	return fmt.Sprintf("%s %-6s %s: %s", at, e.by, e.change.Op, show(e.change.Before)+" → "+show(e.change.After))
}

func show(row any) string {
	switch r := row.(type) {
	case nil:
		return "none"
	case memstore.Task:
		state := []string{"ready", "waits", "running"}[r.State]
		return fmt.Sprintf("task %s %s@%s/%d %s attempt %d token %d session %.13s until %s run at %s %s", r.ID, r.Job+r.Pool, clock(r.TriggerAt), r.TriggerSeq,
			state, r.Attempt, r.Token, tail(r.Session), clock(r.MayRunUntil), clock(r.RunAt), r.Reason)
	case memstore.Done:
		return fmt.Sprintf("done %s %s@%s/%d %s attempt %d token %d %s", r.ID, r.Job+r.Pool, clock(r.TriggerAt), r.TriggerSeq, r.State, r.Attempt, r.Token, r.Reason)
	case memstore.Trigger:
		return fmt.Sprintf("trigger %s@%s/%d…%s ×%d %q %s %s", r.Job, clock(r.At), r.Seq, clock(r.Until), r.Count, r.Outcome, r.Reason, r.TaskID)
	case memstore.Job:
		return fmt.Sprintf("job %s cursor %s next %s fence %d hash %.6s schedule %.6s busy until %s", r.Name, clock(r.Cursor), clock(r.Next), r.Fence, r.Hash, r.Schedule, clock(r.BusyUntil))
	case memstore.Session:
		return fmt.Sprintf("session %s of %s beat %d dead %v config %d", tail(r.ID), r.Replica, r.Beat, r.Dead, r.Config)
	case memstore.Pool:
		return fmt.Sprintf("pool %s hash %.6s", r.Name, r.Hash)
	}
	return fmt.Sprintf("%T", row)
}

func tail(id string) string { return id[max(0, len(id)-12):] }

func clock(us int64) string {
	if us == 0 {
		return "-"
	}
	return time.UnixMicro(us).UTC().Format("02 15:04:05.000")
}

// note writes into the history.
func (w *world) note(by, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, entry{at: time.Now(), by: by, format: format, args: args})
}

// violate notes that an invariant does not hold. With w.mu held.
func (w *world) violate(about, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(w.violations) < 20 {
		w.violations = append(w.violations, violation{about, text})
	}
	w.history = append(w.history, entry{at: time.Now(), by: "JUDGE", format: "%s", args: []any{text}})
}

// violation is an invariant that does not hold, and the job or task that it is about.
type violation struct{ about, text string }

// story is the last entries that tell of something, and what became of the replicas.
func (w *world) story(about string, n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, e := range w.history {
		switch e.change.After.(type) {
		case memstore.Session:
			if before, existed := e.change.Before.(memstore.Session); existed && before.Dead == e.change.After.(memstore.Session).Dead {
				continue // a beat
			}
			lines = append(lines, e.String())
			continue
		}
		aboutAll := e.by == "PLAN" || e.by == "JUDGE" || slices.Contains([]string{startedWith, endedWith, isKilled}, e.format)
		if text := e.String(); aboutAll || strings.Contains(text, about) {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// What becomes of replicas is told in every story.
const (
	startedWith = "started with configuration %d"
	endedWith   = "ended: %v"
	isKilled    = "is killed"
)

// logger keeps what a replica says.
func (w *world) logger(id string) *slog.Logger { return slog.New(&tape{w, id}) }

// watch sees each row that a transaction changed, in the order of the commits, and judges what can be
// judged at once.
func (w *world) watch(c memstore.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c.After.(type) {
	case memstore.Session, memstore.Task, memstore.Done, memstore.Trigger, memstore.Job, memstore.Pool:
		w.history = append(w.history, entry{at: time.Now(), by: c.By, change: c})
	case nil:
		if r, is := c.Before.(memstore.Task); is {
			w.open[r.Job] = slices.DeleteFunc(w.open[r.Job], func(id string) bool { return id == r.ID })
			if r.State == memstore.Running {
				w.inPool[r.Pool]--
			}
			delete(w.owned, r.ID)
			w.leaving[r.ID] = r
			w.noteBusy(c.Op, r)
		}
		return
	}
	switch r := c.After.(type) {
	case memstore.Task:
		before, existed := c.Before.(memstore.Task)
		w.watchTask(c, before, existed, r)
	case memstore.Done:
		before, existed := c.Before.(memstore.Done)
		w.watchDone(c, before, existed, r)
	case memstore.Trigger:
		before, existed := c.Before.(memstore.Trigger)
		w.watchTrigger(before, existed, r)
	case memstore.Job:
		before, existed := c.Before.(memstore.Job)
		w.watchJob(before, existed, r)
	case memstore.Pool:
		w.paused[r.Name] = r.Paused != nil && *r.Paused
	case memstore.Session:
		before, existed := c.Before.(memstore.Session)
		if known := w.replicas[r.Replica]; known != nil && !existed {
			known.joined = time.Now()
			w.sessions[r.ID] = known
		}
		if owner := w.sessions[r.ID]; owner != nil {
			w.judgeConfig(owner, r.Config)
		}
		if r.Beat > before.Beat {
			w.beats[r.ID] = time.Now()
		}
		if c.Op == "bury" {
			w.buried[r.ID] = true
		}
		if owner := w.sessions[r.ID]; owner != nil && r.Dead && !before.Dead && c.Op == "bury" {
			w.judgeBurial(owner)
		}
	}
}

func (w *world) watchTask(c memstore.Change, before memstore.Task, existed bool, r memstore.Task) {
	if _, ended := w.done[r.ID]; ended {
		w.violate(r.ID, "task %s came back after its end", r.ID)
	}
	if !existed {
		w.open[r.Job] = append(w.open[r.Job], r.ID)
		if r.Job != "" && w.forbids(r.Job) && len(w.open[r.Job]) > 1 {
			w.violate(r.Job, "job %s forbids, and has the open tasks %v", r.Job, w.open[r.Job])
		}
		if until := w.busy[r.Job]; r.Job != "" && w.forbids(r.Job) && until > r.CreatedAt {
			w.violate(r.Job, "job %s is busy until %s, and a task of it was made at %s", r.Job, clock(until), clock(r.CreatedAt))
		}
		before = memstore.Task{ID: r.ID}
	}
	began := r.State == memstore.Running && (!existed || before.State != memstore.Running)
	stopped := existed && before.State == memstore.Running && r.State != memstore.Running
	switch {
	case began:
		w.inPool[r.Pool]++
		if w.paused[r.Pool] {
			w.violate(r.ID, "task %s was claimed in pool %s, which is paused", r.ID, r.Pool)
		}
		if owner := w.replicas[r.Replica]; owner != nil && owner.node.index%2 != 0 && r.Job != "" && w.onlyInZone(r.Job) {
			w.violate(r.ID, "task %s was claimed by %s, where %s does not run", r.ID, r.Replica, r.Job)
		}
		if limit := w.plan.Pools[r.Pool].MaxRunning; limit > 0 && w.inPool[r.Pool] > limit {
			w.violate(r.ID, "%d tasks run in pool %s, %d are allowed", w.inPool[r.Pool], r.Pool, limit)
		}
		if existed && before.State != memstore.Ready {
			w.violate(r.ID, "task %s was claimed while it waited", r.ID)
		}
		if r.Attempt != before.Attempt+1 || r.Token <= before.Token {
			w.violate(r.ID, "the claim of %s made attempt %d token %d of attempt %d token %d", r.ID, r.Attempt, r.Token, before.Attempt, before.Token)
		}
		if r.Job != "" && r.Token <= w.token[r.Job] {
			w.violate(r.Job, "job %s: token %d after %d", r.Job, r.Token, w.token[r.Job])
		}
		w.token[r.Job] = r.Token
		w.owned[r.ID] = r.Token
		w.claims[claimKey{r.ID, r.Token}] = claim{by: r.Replica, session: r.Session, mayRun: r.MayRunUntil}
	case existed && r.State == memstore.Running:
		k := claimKey{r.ID, r.Token}
		was := w.claims[k]
		was.mayRun = r.MayRunUntil
		w.claims[k] = was
		if before.Token != r.Token {
			w.violate(r.ID, "the token of running task %s moved from %d to %d", r.ID, before.Token, r.Token)
		}
	case stopped:
		w.inPool[r.Pool]--
		delete(w.owned, r.ID)
		if before.Token != r.Token {
			w.violate(r.ID, "task %s has token %d after attempt with %d", r.ID, r.Token, before.Token)
		}
		w.noteBusy(c.Op, before)
		w.judgeLoss(c.Op, before, r.Reason)
	case existed && before.State == memstore.Ready && r.State == memstore.Waits:
		w.violate(r.ID, "task %s waits after it was ready", r.ID)
	}
}

// noteBusy notes until when an attempt may still run whose replica is gone. With w.mu held.
func (w *world) noteBusy(op string, r memstore.Task) {
	if op == "reap" && r.State == memstore.Running {
		w.busy[r.Job] = max(w.busy[r.Job], r.MayRunUntil)
	}
}

func (w *world) watchDone(c memstore.Change, before memstore.Done, existed bool, r memstore.Done) {
	if existed {
		if before.State != string(jobs.StateLost) || before.Late || !r.Late || before.Token != r.Token {
			w.violate(r.ID, "task %s ended as %s, and then as %s", r.ID, before.State, r.State)
		}
		w.counted["late"]++
	}
	w.done[r.ID] = r.State
	row, was := w.leaving[r.ID]
	delete(w.leaving, r.ID)
	if !existed && (!was || row.Token != r.Token) {
		w.violate(r.ID, "task %s ended as %s with token %d, its row had %d", r.ID, r.State, r.Token, row.Token)
	}
	w.judgeLoss(c.Op, row, r.Reason)
	runs := w.runs[claimKey{r.ID, r.Token}]
	switch jobs.State(r.State) {
	case jobs.StateSucceeded:
		if runs == nil || !runs.ok {
			w.violate(r.ID, "task %s succeeded in the record, and did not in fact", r.ID)
		}
	case jobs.StateFailed:
		if runs == nil {
			w.violate(r.ID, "task %s failed in the record, and never started", r.ID)
		}
	}
	w.counted["task "+r.State]++
}

func (w *world) watchTrigger(before memstore.Trigger, existed bool, r memstore.Trigger) {
	switch {
	case !existed:
		w.counted["triggers"]++
		w.judgeLateness(r)
		if r.Outcome == "" && r.Seq == 0 && w.suspended[r.Job] {
			w.violate(r.Job, "job %s is suspended, and its due time %s is to run", r.Job, clock(r.At))
		}
	case before.Outcome != "" && before != r && (before.Outcome != string(jobs.Lost) || r.Outcome != string(jobs.Ran)):
		w.violate(r.Job, "the row of %s at %s ended as %s, and then as %s", r.Job, clock(r.At), before.Outcome, r.Outcome)
	}
	if r.Outcome != before.Outcome {
		w.counted["outcome "+r.Outcome]++
	}
}

func (w *world) watchJob(before memstore.Job, existed bool, r memstore.Job) {
	if existed && (r.Cursor < before.Cursor || r.Fence < before.Fence) {
		w.violate(r.Name, "job %s: cursor from %s to %s, fence from %d to %d", r.Name, clock(before.Cursor), clock(r.Cursor), before.Fence, r.Fence)
	}
	w.suspended[r.Name] = r.Suspended != nil && *r.Suspended
	if before.Schedule == r.Schedule {
		return
	}
	if list := w.epochs[r.Name]; len(list) > 0 && list[len(list)-1].until == 0 {
		last := &list[len(list)-1]
		last.until = before.Cursor
		if next := last.times.next(time.UnixMicro(before.Cursor)); !next.After(time.Now().Add(w.offset)) {
			last.undecided = next.UnixMicro()
		}
	}
	if ts, known := w.schedules[r.Name+r.Schedule]; known {
		w.epochs[r.Name] = append(w.epochs[r.Name], epoch{times: ts, from: r.Cursor})
	}
}
