package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// pauseLog writes an audit of one pool, which is paused when two of its last four attempts fail.
type pauseLog struct {
	audit []history.Change
	asks  []history.Ask
	now   time.Time
	ids   int

	paused bool
}

func (l *pauseLog) add(table string, before, after *history.Row) {
	l.audit = append(l.audit, history.Change{Seq: int64(len(l.audit)) + 1, At: l.now.UnixMicro(), Table: table, Before: before, After: after})
}

// ends are the ends of attempts in one transaction, by which the pool's row is counted up if it is not paused: 1 for each task that failed, and r
// for one that is retried.
func (l *pauseLog) ends(failed string) {
	if !l.paused {
		l.add("pools", &history.Row{Pool: "p"}, &history.Row{Pool: "p"})
	}
	l.endsOfPaused(failed)
}

func (l *pauseLog) endsOfPaused(failed string) {
	l.now = l.now.Add(time.Second)
	var ended, again []history.Row
	for _, bad := range failed {
		l.ids++
		r := history.Row{ID: strings.Repeat("t", l.ids), Pool: "p", State: "ready"}
		l.add("tasks", nil, &r)
		r.State = map[rune]string{'0': "succeeded", '1': "failed", 'r': "failed", 'c': "cancelled", 'l': "lost"}[bad]
		if bad == 'r' {
			again = append(again, r)
		} else {
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		l.add("done", nil, &r)
	}
	for _, r := range ended {
		l.add("tasks", &history.Row{ID: r.ID, Pool: "p", State: running}, nil)
	}
	for _, r := range again {
		l.add("tasks", &history.Row{ID: r.ID, Pool: "p", State: running}, &history.Row{ID: r.ID, Pool: "p", State: "waits"})
	}
	for _, r := range again {
		l.add("attempts", nil, &history.Row{TaskID: r.ID, State: r.State})
	}
}

func (l *pauseLog) pause(paused int64, by string) {
	l.now = l.now.Add(time.Second)
	l.paused = paused == 1
	l.add("pools", &history.Row{Pool: "p", Paused: 1 - paused}, &history.Row{Pool: "p", Paused: paused, By: by})
}

// anew is the row of a pool that is resumed, and was not paused.
func (l *pauseLog) anew(asked bool) {
	l.now = l.now.Add(time.Second)
	l.add("pools", &history.Row{Pool: "p", Window: "1"}, &history.Row{Pool: "p"})
	if asked {
		l.asks = append(l.asks, history.Ask{What: "resume", Target: "p", Answer: "ok", Called: l.now.Add(-time.Millisecond), Returned: l.now.Add(time.Millisecond)})
	}
}

func (l *pauseLog) start(after time.Duration) {
	r := history.Row{ID: "s", Pool: "p", State: "ready"}
	is := r
	is.State, is.StartedAt = running, l.now.Add(after).UnixMicro()
	l.add("tasks", &r, &is)
}

// A pause is found that comes too early, or not at all, or twice for the same failures, and so is what starts while it lasts.
func TestPauses(t *testing.T) {
	for name, c := range map[string]struct {
		play func(l *pauseLog)
		want string // part of the one violation; empty: none
	}{
		"at once":                         {func(l *pauseLog) { l.ends("01"); l.pause(1, "pause_on"); l.ends("1") }, ""},
		"with several in one transaction": {func(l *pauseLog) { l.ends("000"); l.pause(1, "pause_on"); l.ends("0110") }, ""},
		"not at all":                      {func(l *pauseLog) { l.ends("01"); l.ends("1"); l.ends("0") }, "not paused"},
		"as the window slides":            {func(l *pauseLog) { l.ends("1"); l.ends("000"); l.ends("1"); l.ends("000") }, ""},
		"what does not count":             {func(l *pauseLog) { l.ends("1"); l.ends("cl"); l.ends("000") }, ""},
		"too early":                       {func(l *pauseLog) { l.ends("00"); l.pause(1, "pause_on"); l.ends("1") }, "paused after 1 failures"},
		"after it has slid out":           {func(l *pauseLog) { l.ends("1"); l.ends("000"); l.pause(1, "pause_on"); l.ends("1") }, "paused after 1 failures"},
		"twice for one": {func(l *pauseLog) {
			l.ends("1")
			l.pause(1, "pause_on")
			l.ends("1")
			l.pause(0, "ann")
			l.pause(1, "pause_on")
			l.ends("1")
		}, "paused after 1 failures"},
		"too early, before others":   {func(l *pauseLog) { l.ends("00"); l.pause(1, "pause_on"); l.ends("1"); l.ends("1") }, "paused after 1 failures"},
		"too early, before retries":  {func(l *pauseLog) { l.ends("00"); l.pause(1, "pause_on"); l.ends("r"); l.ends("r") }, "paused after 1 failures"},
		"too early, by a retry":      {func(l *pauseLog) { l.ends("00"); l.pause(1, "pause_on"); l.ends("r"); l.ends("1") }, "paused after 1 failures"},
		"by retries":                 {func(l *pauseLog) { l.ends("r"); l.pause(1, "pause_on"); l.ends("0rr"); l.ends("rr") }, ""},
		"by retries, and not at all": {func(l *pauseLog) { l.ends("1r"); l.ends("0") }, "not paused"},
		"again for others": {func(l *pauseLog) {
			l.ends("1")
			l.pause(1, "pause_on")
			l.ends("1")
			l.ends("1")
			l.pause(0, "ann")
			l.ends("1")
			l.pause(1, "pause_on")
			l.ends("1")
		}, ""},
		"by hand":                {func(l *pauseLog) { l.ends("1"); l.pause(1, "ann"); l.ends("11"); l.pause(0, "ann"); l.ends("1") }, ""},
		"begun anew by a client": {func(l *pauseLog) { l.ends("1"); l.anew(true); l.ends("1") }, ""},
		"begun anew by nobody":   {func(l *pauseLog) { l.ends("1"); l.anew(false); l.ends("1") }, "no client has resumed it"},
		"a start while it lasts": {func(l *pauseLog) { l.pause(1, "ann"); l.start(unseen + time.Millisecond) }, "after the pool was paused"},
		"a start that began":     {func(l *pauseLog) { l.pause(1, "ann"); l.start(-time.Millisecond) }, ""},
		"a start after it":       {func(l *pauseLog) { l.pause(1, "ann"); l.pause(0, "ann"); l.start(time.Hour) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := &pauseLog{now: began}
			c.play(l)
			judged := newTrial(&history.History{Run: history.Run{Pools: []history.Pool{{Name: "p", PauseOf: 4, PauseFailures: 50}}}, Audit: l.audit, Asks: l.asks})
			judged.report.Violations = nil // the log has no claims
			judged.pauses()
			got := judged.report.Violations
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || !strings.Contains(got[0].Text, c.want)) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

// A start is found between the answer that a pool is paused and the call that resumes it, and nowhere else.
func TestStartsInPauses(t *testing.T) {
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	call := func(what, answer string, from, to float64) history.Ask {
		return history.Ask{What: what, Target: "p", Answer: answer, Called: at(from), Returned: at(to)}
	}
	pause := call("pause", "ok", 10, 11)
	for name, c := range map[string]struct {
		asks           []history.Ask
		began, written float64
		want           bool
	}{
		"in it":                      {[]history.Ask{pause, call("resume", "ok", 20, 21)}, 12, 12.1, true},
		"in it, for ever":            {[]history.Ask{pause}, 60, 60, true},
		"began before the answer":    {[]history.Ask{pause}, 10.5, 12, false},
		"written as it is resumed":   {[]history.Ask{pause, call("resume", "ok", 20, 21)}, 19, 20.5, false},
		"resumed, without an answer": {[]history.Ask{pause, call("resume", "unknown", 20, 21)}, 25, 25, false},
		"not resumed":                {[]history.Ask{pause, call("resume", "refused", 20, 21)}, 25, 25, true},
		"resumed before, and late":   {[]history.Ask{call("resume", "unknown", 8, 9), pause}, 15, 15, false},
		"resumed long before":        {[]history.Ask{call("resume", "ok", 8, 9), pause}, 15, 15, true},
		"paused, without an answer":  {[]history.Ask{call("pause", "unknown", 10, 11)}, 15, 15, false},
	} {
		t.Run(name, func(t *testing.T) {
			row := history.Row{ID: "t", Pool: "p", State: running, StartedAt: at(c.began).UnixMicro()}
			h := &history.History{
				Run:  history.Run{Ended: at(100), Pools: []history.Pool{{Name: "p"}}},
				Asks: c.asks, Audit: []history.Change{{At: at(c.written).UnixMicro(), Table: "tasks", After: &row}},
			}
			judged := newTrial(h)
			judged.report.Violations = nil
			judged.startsInPauses()
			if got := judged.report.Violations; (len(got) == 1) != c.want {
				t.Errorf("%v, want %t", got, c.want)
			}
		})
	}
}

// Starts and ends of tasks that expire.
func TestExpiries(t *testing.T) {
	over := began.Add(10 * time.Second)
	row := func(state string) *history.Row {
		return &history.Row{ID: "t", Pool: "p", State: state, ExpiresAt: over.UnixMicro()}
	}
	start := func(attempt int64, at, written time.Time) history.Change {
		r := row(running)
		r.Attempt, r.StartedAt = attempt, at.UnixMicro()
		return history.Change{At: written.UnixMicro(), Table: "tasks", Before: row("ready"), After: r}
	}
	end := func(state string, attempt int64, at time.Time) history.Change {
		r := row(state)
		r.Attempt, r.Code = attempt, "expired"
		return history.Change{At: at.UnixMicro(), Table: "done", After: r}
	}
	for name, c := range map[string]struct {
		is   history.Change
		want string
	}{
		"starts in time":        {start(1, over.Add(-time.Second), over.Add(time.Second)), ""},
		"starts too late":       {start(1, over, over), "started 0s after"},
		"is retried later":      {start(2, over.Add(time.Minute), over.Add(time.Minute)), ""},
		"is written too late":   {start(1, over.Add(-time.Second), over.Add(seen+time.Second)), "was written"},
		"ends in time":          {end("cancelled", 0, over.Add(time.Second)), ""},
		"ends too early":        {end("cancelled", 0, over.Add(-time.Second)), "before its time"},
		"ends too late":         {end("cancelled", 0, over.Add(promised+reapTime+time.Millisecond)), "later"},
		"ends as another":       {end("failed", 0, over.Add(time.Second)), "expired as failed"},
		"ends with an attempt":  {end("cancelled", 1, over.Add(time.Second)), "with attempt 1"},
		"has not got that time": {history.Change{At: over.UnixMicro(), Table: "done", After: &history.Row{ID: "t", State: "cancelled", Code: "expired"}}, "before its time"},
	} {
		t.Run(name, func(t *testing.T) {
			judged := newTrial(&history.History{Audit: []history.Change{c.is}})
			judged.report.Violations = nil
			judged.expiries()
			got := judged.report.Violations
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].Invariant != OnTime || !strings.Contains(got[0].Text, c.want)) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

// What was cancelled starts no more, and a call is about the pool that it names.
func TestCancelledTasks(t *testing.T) {
	row := func(state string, at time.Time) *history.Row {
		return &history.Row{ID: "t", Pool: "p", State: state, Attempt: 1, StartedAt: at.UnixMicro()}
	}
	start := history.Change{At: began.UnixMicro(), Table: "tasks", Before: row("ready", time.Time{}), After: row(running, began)}
	ask := func(what, target, answer string, returned time.Time) history.Ask {
		return history.Ask{What: what, Target: target, Answer: answer, Returned: returned, TaskIDs: []string{"t"}}
	}
	for name, c := range map[string]struct {
		ask  history.Ask
		want string
	}{
		"alone, before":             {ask("cancel", "t", "ok", began.Add(-time.Second)), "after its cancellation"},
		"alone, later":              {ask("cancel", "t", "ok", began.Add(time.Second)), ""},
		"refused":                   {ask("cancel", "t", "refused", began.Add(-time.Second)), ""},
		"of many, before":           {ask("cancel many", "p", "ok", began.Add(-time.Second)), "after its cancellation"},
		"of many, later":            {ask("cancel many", "p", "ok", began.Add(time.Second)), ""},
		"of another pool":           {ask("cancel many", "q", "ok", began.Add(time.Second)), "of pool p, and cancelled"},
		"retried":                   {ask("retry many", "p", "ok", began.Add(-time.Second)), ""},
		"retried with another pool": {ask("retry many", "q", "ok", began.Add(-time.Second)), "of pool p, and cancelled or retried"},
	} {
		t.Run(name, func(t *testing.T) {
			judged := newTrial(&history.History{Audit: []history.Change{start}, Asks: []history.Ask{c.ask}})
			judged.report.Violations = nil
			judged.cancelled()
			got := judged.report.Violations
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0].Invariant != OneEnd || !strings.Contains(got[0].Text, c.want)) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}
