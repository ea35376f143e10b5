package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// editLog is a run of a job that is due every three seconds, and of one that comes and goes: version 1 moves the one and adds the other, version 2 moves the one again and
// removes the other.
type editLog struct {
	h       *history.History
	now     time.Time
	decided map[string]time.Time // up to when
}

const third = 3 * time.Second

// due are the due times of a version.
func (l *editLog) due(job string, version int) []history.Every {
	switch {
	case job == "edited":
		return every(third, time.Duration(version)*time.Second)
	case version == 1:
		return every(2*time.Second, 0)
	}
	return nil
}

func (l *editLog) add(table string, before, after *history.Row) {
	l.h.Audit = append(l.h.Audit, history.Change{Seq: int64(len(l.h.Audit)) + 1, At: l.now.UnixMicro(), Table: table, Before: before, After: after})
}

// row adds a row of the ledger.
func (l *editLog) row(r history.Row) {
	r.DecidedAt, r.Count = l.now.UnixMicro(), max(r.Count, 1)
	l.add("triggers", nil, &r)
	l.h.Final.Triggers = append(l.h.Final.Triggers, r)
}

// decides decides what is due by a version.
func (l *editLog) decides(job string, version int) {
	for at := dueNext(l.due(job, version), l.decided[job]); !at.IsZero() && !at.After(l.now); at = dueNext(l.due(job, version), at) {
		l.row(history.Row{Job: job, At: at.UnixMicro(), Outcome: "ran", Result: "succeeded", TaskID: "t", StartedAt: 1, FinishedAt: 2})
		l.decided[job] = at
	}
}

// gives writes a version for a replica.
func (l *editLog) gives(what string, version int) {
	due := map[string][]history.Every{}
	for _, job := range []string{"edited", "added"} {
		if d := l.due(job, version); d != nil {
			due[job] = d
		}
	}
	l.h.Edits = append(l.h.Edits, history.Edit{At: l.now, Replica: "a", What: what, Version: version, Due: due})
}

// loads writes the rows of jobs as a version has them. What was due by the one before and is not decided is overtaken.
func (l *editLog) loads(before, version int) {
	for _, job := range []string{"edited", "added"} {
		was := &history.Row{Job: job, Schedule: l.hash(job, before), Cursor: l.decided[job].UnixMicro()}
		is := &history.Row{Job: job, Schedule: l.hash(job, version), Cursor: l.now.UnixMicro()}
		late := dueNext(l.due(job, before), l.decided[job])
		code := codeEdited
		if l.due(job, version) == nil {
			is.Cursor, code = was.Cursor, codeRemoved
		} else {
			l.decided[job] = l.now
		}
		if l.due(job, before) == nil {
			was = nil
		}
		l.add("jobs", was, is)
		if !late.IsZero() && !late.After(l.now) {
			r := history.Row{Job: job, At: late.UnixMicro(), Count: 1, Outcome: "missed", Reason: "edited", Code: code}
			for next := dueNext(l.due(job, before), late); !next.After(l.now); next = dueNext(l.due(job, before), next) {
				r.Until, r.Count = next.UnixMicro(), r.Count+1
			}
			l.row(r)
		}
	}
}

func (l *editLog) hash(job string, version int) string {
	if l.due(job, version) == nil {
		return ""
	}
	return job + string(rune('a'+version))
}

// runs lets seconds pass, in which a version is decided.
func (l *editLog) runs(version, seconds int) {
	for range seconds {
		l.now = l.now.Add(time.Second)
		l.decides("edited", version)
		l.decides("added", version)
	}
}

// editedTwice is a run that holds.
func editedTwice(change func(step string, l *editLog)) *history.History {
	l := &editLog{now: began, decided: map[string]time.Time{"edited": began}, h: &history.History{Run: history.Run{
		Began: began, Jobs: []history.Job{{Name: "edited", Due: every(third, 0)}, {Name: "added"}},
	}}}
	step := func(name string, does func()) {
		before := len(l.h.Audit)
		if change(name, l); len(l.h.Audit) == before {
			does()
		}
	}
	l.add("jobs", nil, &history.Row{Job: "edited", Schedule: l.hash("edited", 0), Cursor: began.UnixMicro()})
	l.runs(0, 10)
	l.gives(history.EditInvalid, 0)
	step("invalid", func() {})
	l.gives(history.EditNew, 1)
	l.now = l.now.Add(2100 * time.Millisecond) // 12 s is due meanwhile
	step("first", func() { l.loads(0, 1) })
	l.runs(1, 10)
	l.gives(history.EditOld, 0)
	step("old", func() {})
	l.runs(1, 5)
	l.gives(history.EditNew, 2)
	l.now = l.now.Add(100 * time.Millisecond)
	step("second", func() { l.loads(1, 2) })
	l.runs(2, 40)
	l.h.Run.Quiesced, l.h.Run.Ended = l.now, l.now
	return l.h
}

// Edits fire nothing of the past and leave nothing out; an invalid file and an older one change nothing.
func TestSpells(t *testing.T) {
	nothing := func(string, *editLog) {}
	last := func(h *history.History, code string) int {
		return slices.IndexFunc(h.Final.Triggers, func(r history.Row) bool { return r.Code == code })
	}
	for name, c := range map[string]struct {
		during func(step string, l *editLog)
		after  func(h *history.History)
		want   string // part of the first violation; empty: none
	}{
		"as it should be": {nothing, nil, ""},
		"of the past": {func(step string, l *editLog) {
			if step == "first" {
				l.now = l.now.Add(-2500 * time.Millisecond)
				l.loads(0, 1)
				l.now = l.now.Add(2500 * time.Millisecond)
			}
		}, nil, "before version 1 was written"},
		"due before the edit": {func(step string, l *editLog) {
			if step == "second" {
				l.loads(1, 2)
				l.h.Audit[len(l.h.Audit)-2].After.Cursor -= 10_000_000
			}
		}, nil, "before version 2 was written"},
		"decided by the old one afterwards": {nothing, func(h *history.History) {
			r := history.Row{Job: "edited", At: began.Add(15 * time.Second).UnixMicro(), Count: 1, Outcome: "ran", Result: "succeeded", TaskID: "t", StartedAt: 1, FinishedAt: 2, DecidedAt: began.Add(15 * time.Second).UnixMicro()}
			i := slices.IndexFunc(h.Audit, func(c history.Change) bool { return c.Table == "jobs" && c.Before != nil })
			h.Audit = slices.Insert(h.Audit, i+5, history.Change{Seq: h.Audit[i+5].Seq, At: r.DecidedAt, Table: "triggers", After: &r})
			h.Final.Triggers = append(h.Final.Triggers, r)
		}, "a row for a time that is not due"},
		"an old file takes over": {func(step string, l *editLog) {
			if step == "old" {
				l.loads(1, 0)
			}
		}, nil, "is again one that was replaced"},
		"an invalid file changes something": {func(step string, l *editLog) {
			if step == "invalid" {
				l.loads(0, 1)
				l.now = l.now.Add(time.Second)
			}
		}, nil, "before version 1 was written"},
		"one too many": {func(step string, l *editLog) {
			if step == "second" {
				l.loads(1, 2)
				l.add("jobs", &history.Row{Job: "edited", Schedule: "x"}, &history.Row{Job: "edited", Schedule: "y", Cursor: l.now.UnixMicro()})
			}
		}, nil, "no file had another one"},
		"one that is not loaded": {nothing, func(h *history.History) {
			h.Edits = append(h.Edits, history.Edit{At: h.Run.Ended.Add(-30 * time.Second), What: history.EditNew, Version: 3, Due: map[string][]history.Every{"edited": every(third, 0)}})
		}, "version 3, written at"},
		"nothing about what was overtaken": {nothing, func(h *history.History) {
			i := last(h, codeEdited)
			h.Final.Triggers = slices.Delete(h.Final.Triggers, i, i+1)
		}, "no row for 1 due times"},
		"one of two that were overtaken": {func(step string, l *editLog) {
			if step == "first" {
				l.now = l.now.Add(6 * time.Second)
				l.loads(0, 1)
			}
		}, func(h *history.History) {
			r := &h.Final.Triggers[last(h, codeEdited)]
			r.Until, r.Count = 0, 1
		}, "no row for 2 due times"},
		"more than were overtaken": {nothing, func(h *history.History) {
			h.Final.Triggers[last(h, codeEdited)].Count++
		}, "stands for 1 due times and says 2"},
		"overtaken without an edit": {nothing, func(h *history.History) {
			h.Final.Triggers[2].Code, h.Final.Triggers[2].Outcome = codeEdited, "missed"
			for _, c := range h.Audit {
				if c.Table == "triggers" && c.After.At == h.Final.Triggers[2].At {
					c.After.Code = codeEdited
				}
			}
		}, "and there was no edit"},
		"a due time of the new one without a row": {nothing, func(h *history.History) {
			h.Final.Triggers = slices.Delete(h.Final.Triggers, len(h.Final.Triggers)-3, len(h.Final.Triggers)-2)
		}, "no row for 1 due times"},
		"a job that was removed runs": {nothing, func(h *history.History) {
			r := history.Row{Job: "added", At: h.Run.Ended.Add(-10 * time.Second).Truncate(2 * time.Second).UnixMicro(), Count: 1, Outcome: "ran", Result: "succeeded", TaskID: "t", StartedAt: 1, FinishedAt: 2, DecidedAt: h.Run.Ended.UnixMicro()}
			h.Audit = append(h.Audit, history.Change{Seq: 1 << 30, At: r.DecidedAt, Table: "triggers", After: &r})
			h.Final.Triggers = append(h.Final.Triggers, r)
		}, "a row of a job that no configuration has"},
	} {
		t.Run(name, func(t *testing.T) {
			h := editedTwice(c.during)
			if c.after != nil {
				c.after(h)
			}
			judged := newTrial(h)
			judged.report.Violations = nil
			judged.accounted()
			got := judged.report.Violations
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.ContainsFunc(got, func(v Violation) bool { return strings.Contains(v.Text, c.want) }) {
				t.Errorf("want %q, and got:", c.want)
				for _, v := range got {
					t.Log(v)
				}
			}
		})
	}
}
