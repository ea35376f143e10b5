package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// slotLog writes an audit of one job, a transaction each second. Tasks are due in the order of their names.
type slotLog struct {
	audit []history.Change
	now   time.Time
	rows  map[string]history.Row
}

func (l *slotLog) add(table string, before, after *history.Row) {
	l.audit = append(l.audit, history.Change{Seq: int64(len(l.audit)) + 1, At: l.now.UnixMicro(), Table: table, Before: before, After: after})
}

// opens makes a task: "a" gets a slot, "a?" waits for one.
func (l *slotLog) opens(name string) {
	id, waits := strings.CutSuffix(name, "?")
	r := history.Row{ID: id, Job: "j", At: int64(id[0]), State: running, Attempt: 1, Token: int64(len(l.audit)) + 1, Session: "s", CreatedAt: l.now.UnixMicro()}
	if waits {
		r.State, r.Attempt, r.Token, r.Session = queued, 0, 0, ""
	}
	l.rows[id] = r
	l.add("tasks", nil, &r)
}

// moves changes the row of a task.
func (l *slotLog) moves(id string, change func(r *history.Row)) {
	before := l.rows[id]
	after := before
	change(&after)
	l.rows[id] = after
	l.add("tasks", &before, &after)
}

func (l *slotLog) stops(id string) {
	l.moves(id, func(r *history.Row) { r.Cancel = "replaced by another" })
}

// grants gives a slot to a task that waits.
func (l *slotLog) grants(id string) { l.moves(id, func(r *history.Row) { r.State = "ready" }) }

// ends moves a task to those that have ended; it may run for so long.
func (l *slotLog) ends(id, state string, mayRun time.Duration) {
	before := l.rows[id]
	done := before
	done.State, done.Until = state, 0
	if mayRun > 0 {
		done.Until = l.now.Add(mayRun).UnixMicro()
	}
	l.add("done", nil, &done)
	l.add("tasks", &before, nil)
}

// skips is the row of a due time that finds no room.
func (l *slotLog) skips(code string) {
	l.add("triggers", nil, &history.Row{Job: "j", At: 1, Outcome: "skipped", Code: code, DecidedAt: l.now.UnixMicro()})
}

// play reads "a b?; end a, grant b": transactions that write the job's row at their end.
func (l *slotLog) play(script string) {
	for transaction := range strings.SplitSeq(script, ";") {
		for step := range strings.SplitSeq(transaction, ",") {
			what, id, _ := strings.Cut(strings.TrimSpace(step), " ")
			switch what {
			case "":
			case "open":
				l.opens(id)
			case "grant":
				l.grants(id)
			case "stop":
				l.stops(id)
			case "end":
				l.ends(id, "cancelled", 0)
			case "lose":
				l.ends(id, "lost", 6*time.Second)
			case "late":
				done := l.rows[id]
				done.State, done.Late = "succeeded", 1
				l.add("done", nil, &done)
			case "wait":
				l.now = l.now.Add(10 * time.Second)
			case "back":
				l.now = l.now.Add(-time.Hour)
			case "skip":
				l.skips(id)
			default:
				panic(what)
			}
		}
		l.add("jobs", &history.Row{Job: "j"}, &history.Row{Job: "j"})
		l.now = l.now.Add(time.Second)
	}
}

// What has a slot, and what waits for one, follows the policy of the job.
func TestJobSlots(t *testing.T) {
	forbid := history.Job{Concurrency: "forbid"}
	two := history.Job{Concurrency: "forbid", MaxRunning: 2}
	queue := history.Job{Concurrency: "queue", QueueLimit: 2}
	replace := history.Job{Concurrency: "replace"}
	for name, c := range map[string]struct {
		job    history.Job
		script string
		want   string // part of the one violation; empty: none
	}{
		"one after the other":                       {forbid, "open a; end a, open b", ""},
		"at once":                                   {forbid, "open a; open b", "forbid, and 2 tasks at once: a, b"},
		"two in two slots":                          {two, "open a; open b; end b, open c", ""},
		"three in two slots":                        {two, "open a; open b; open c", "3 tasks at once: a, b, c"},
		"beside a lost one":                         {forbid, "open a; lose a; open b", "and 1 lost ones that may run: a"},
		"beside a lost one that may run no more":    {forbid, "open a; lose a; wait; open b", ""},
		"beside a lost one that ended late":         {forbid, "open a; lose a; late a; open b", ""},
		"skipped without need":                      {two, "open a; wait; skip slot_taken", "and 1 of 2 are"},
		"skipped as one has ended meanwhile":        {two, "open a; open b; end b; skip slot_taken", ""},
		"in the queue":                              {queue, "open a; open b?, open c?; end a, grant b; end b, grant c", ""},
		"a slot for one and a place for another":    {queue, "open a; open b?, open c?; end a, open d?, grant b", ""},
		"too many in the queue":                     {queue, "open a; open b?, open c?; open d?", "and 3 tasks wait for a slot where 2 may"},
		"out of order":                              {queue, "open a; open b?, open c?; end a, grant c", "task c got a slot, and b waits"},
		"by a clock set back":                       {queue, "open a; open c?; back, end a, open b?, grant c; end c, grant b", ""},
		"opened in between":                         {queue, "open a; open c?; end a, open b?, grant c", "task c got a slot, and b waits"},
		"a clock set back before both":              {queue, "open a; open c?; back; open b?; end a, grant c", "task c got a slot, and b waits"},
		"overtaken":                                 {queue, "open a; open b?; end a, open c", "task c got a slot, and b waits"},
		"waits where all forbid it":                 {forbid, "open a; open b?", "1 tasks wait for a slot where 0 may"},
		"skipped before the queue is full":          {queue, "open a; open b?; skip queue_full", "and 1 of 2 wait"},
		"skipped as the queue is full":              {queue, "open a; open b?, open c?; skip queue_full", ""},
		"skipped as the queue was full":             {queue, "open a; open b?, open c?; end c; skip queue_full", ""},
		"two slots for what waits in one":           {queue, "open a; open b?; grant b", "queue, and 2 tasks at once"},
		"waits for ever":                            {queue, "open a; open b?; end a; wait; grant b", "a slot was free for"},
		"waits until a lost one may run no more":    {queue, "open a; open b?; lose a; wait; ", "a slot was free for"},
		"waits for a lost one":                      {queue, "open a; open b?; lose a; ; ; ; ; ; ; grant b", ""},
		"replaced":                                  {replace, "open a; stop a, open b?; end a, grant b", ""},
		"replaced while it waits":                   {replace, "open a; stop a, open b?; end b, open c?; end a, grant c", ""},
		"replaced at once":                          {replace, "open a; end a, open b", ""},
		"two that replace":                          {replace, "open a; stop a, open b?; open c?", "and 2 tasks wait for a slot where 1 may"},
		"waits, and nothing is told to stop":        {replace, "open a; wait; open b?", "and nothing was told to stop"},
		"waits for one that was lost":               {replace, "open a; lose a; open b?; ; ; ; ; ; grant b", ""},
		"waits for one that has ended meanwhile":    {replace, "open a; end a, open b?, grant b", ""},
		"takes the place of one that still runs on": {replace, "open a; stop a, open b", "replace, and 2 tasks at once"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &slotLog{now: began, rows: map[string]history.Row{}}
			l.play(c.script)
			c.job.Name = "j"
			judged := newTrial(&history.History{Run: history.Run{Jobs: []history.Job{c.job}, Ended: l.now}, Audit: l.audit})
			judged.jobSlots()
			got := judged.report.Violations
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || !strings.Contains(got[0].Text, c.want)) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

// What replaces another run is a newer one of the same job, and the row names it.
func TestReplaced(t *testing.T) {
	at := func(s int) int64 { return began.Add(time.Duration(s) * time.Second).UnixMicro() }
	when := func(s int) string { return began.Add(time.Duration(s) * time.Second).Format(time.RFC3339Nano) }
	task := func(id string, due int) history.Change {
		return history.Change{At: at(due), Table: "tasks", After: &history.Row{ID: id, Job: "j", At: at(due), State: "ready"}}
	}
	decided := func(due int, task string) history.Change {
		return history.Change{At: at(9), Table: "triggers", After: &history.Row{Job: "j", At: at(due), TaskID: task, DecidedAt: at(9)}}
	}
	ran := func(reason string) history.Row {
		return history.Row{Job: "j", At: at(1), TaskID: "a", Outcome: "ran", Result: "cancelled", Code: codeReplace, Reason: reason, StartedAt: at(1), FinishedAt: at(2), DecidedAt: at(1)}
	}
	passed := history.Row{Job: "j", At: at(1), Outcome: "skipped", Code: codeReplace, Reason: "replaced by the due time " + when(4) + ", before it started", DecidedAt: at(9)}
	for name, c := range map[string]struct {
		policy string
		row    history.Row
		others []history.Change
		want   string
	}{
		"by a newer one":            {"replace", ran("replaced by the run of " + when(4) + " (task b)"), []history.Change{task("a", 1), task("b", 4)}, ""},
		"by nobody":                 {"replace", ran("replaced by another"), []history.Change{task("a", 1), task("b", 4)}, "that names no run"},
		"by an older one":           {"replace", ran("replaced by the run of " + when(0) + " (task b)"), []history.Change{task("b", 0), task("a", 1)}, "that task is not newer"},
		"by one that is not there":  {"replace", ran("replaced by the run of " + when(4) + " (task c)"), []history.Change{task("a", 1), task("b", 4)}, "has no such task"},
		"of another due time":       {"replace", ran("replaced by the run of " + when(3) + " (task b)"), []history.Change{task("a", 1), task("b", 4)}, "of another due time"},
		"in a job that forbids":     {"forbid", ran("replaced by the run of " + when(4) + " (task b)"), []history.Change{task("a", 1), task("b", 4)}, "does not replace"},
		"before it started":         {"replace", passed, []history.Change{decided(1, ""), decided(4, "b")}, ""},
		"by one that does not run":  {"replace", passed, []history.Change{decided(1, ""), decided(4, "")}, "that due time has no run"},
		"by one of another time":    {"replace", passed, []history.Change{decided(1, ""), {At: at(9), Table: "triggers", After: &history.Row{Job: "j", At: at(4), TaskID: "b", DecidedAt: at(8)}}}, "was not decided with it"},
		"skipped, and none waits":   {"replace", history.Row{Job: "j", At: at(1), Outcome: "skipped", Code: codeTaken, Reason: "the run of it", DecidedAt: at(1)}, []history.Change{task("a", 1)}, "it waits for its slot, or replaces"},
		"full, and it has no queue": {"replace", history.Row{Job: "j", At: at(1), Outcome: "skipped", Code: codeFull, Reason: "2 runs of the job wait for a slot, as many as queue_limit allows; x", DecidedAt: at(1)}, []history.Change{task("a", 1)}, "it has no queue"},
		"full, and nothing has it":  {"queue", history.Row{Job: "j", At: at(1), Outcome: "skipped", Code: codeFull, Reason: "2 runs of the job wait for a slot, as many as queue_limit allows; x", DecidedAt: at(1)}, []history.Change{task("a", 1)}, "that is none"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.others {
				c.others[i].Seq = int64(i) + 1
			}
			judged := newTrial(&history.History{
				Run:   history.Run{Jobs: []history.Job{{Name: "j", Concurrency: c.policy}}},
				Audit: c.others, Final: history.Final{Triggers: []history.Row{c.row}},
			})
			judged.report.Violations = nil
			judged.reasons()
			got := judged.report.Violations
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].Invariant != Accounted || !strings.Contains(got[0].Text, c.want)) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}
