package memstore

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// move is what becomes of a row of tasks: it ends, or it is pending again.
type move struct {
	row     Task
	to      place
	never   bool       // the attempt was claimed and not started
	end     jobs.State // of the attempt, and of the task if it ends
	reason  string
	code    reason.Code
	failure string
	exit    *int
	ended   time.Time // the attempt; zero: now
	due     int64     // when a task that is pending again may run
	until   int64     // a lost attempt may be running until then
	output  []byte
	spans   clip.Spans
	chunks  bool   // there may be chunks of its output
	lost    string // what ends what arrived of an attempt that nobody can ask
	value   []byte // the task's result, if it ends
}

type place int

const (
	toDone place = iota
	toWait
	toReady
)

// died is what a task's policy says when its owner is gone.
func died(r Task, code reason.Code, why string) move {
	m := move{row: r, to: toDone, end: jobs.StateLost, reason: why, code: code, due: r.RunAt}
	switch {
	case r.OnLost != string(jobs.LostRetries):
	case r.Cancel != "":
		m.reason += "; " + r.Cancel
	case r.Losses+1 >= r.LostLimit:
		m.code = reason.LostLimit
		m.reason += fmt.Sprintf("; %d attempts were lost", r.Losses+1)
	default:
		m.to = toReady
	}
	return m
}

// move writes it, and returns the task afterwards, and what happened if it ended.
func (t *tx) move(now time.Time, m move) (jobs.Task, *happening) {
	r, finished := m.row, now
	if !m.ended.IsZero() {
		finished = m.ended
	}
	m.reason = clip.Text(m.reason, 512)
	switch m.end {
	case jobs.StateFailed:
		r.Failures++
	case jobs.StateLost:
		r.Losses++
	}
	r.Reason, r.ReasonCode, r.Error, r.ExitCode = m.reason, m.code, m.failure, m.exit
	t.endChunks(&m)
	if len(m.output) > 0 {
		add(t, &t.outputs, output{r.ID, r.Attempt, m.output, micros(now), string(m.spans)})
	}
	if m.to == toDone {
		if len(m.value) > 0 {
			add(t, &t.results, Result{r.ID, m.value})
		}
		t.endTrigger(finished, m)
		ended := r.done(string(m.end))
		ended.FinishedAt, ended.MayRunUntil = micros(finished), m.until
		ended.Fingerprint = jobs.Fingerprint(ended.task())
		remove(t, &t.tasks, r.ID)
		t.forgetWaits(r.ID)
		remove(t, &t.keyWaits, r.ID)
		put(t, &t.done, ended)
		return bare(ended.task()), ending(ended)
	}
	if m.never {
		t.unstartTrigger(r)
		r.Attempt--
	} else {
		put(t, &t.attempts, attempt{
			TaskID: r.ID, Attempt: r.Attempt, State: string(m.end), Reason: m.reason, ReasonCode: m.code, Token: r.Token, Replica: r.Replica,
			StartedAt: r.StartedAt, FinishedAt: micros(finished), ExitCode: m.exit, Error: m.failure,
		})
	}
	r.State, r.RunAt = Ready, m.due
	if m.to == toWait {
		r.State = Waits
	}
	r.Session, r.Replica, r.ClaimID, r.MayRunUntil, r.Cancel, r.StartedAt, r.Progress = "", "", "", 0, "", 0, ""
	put(t, &t.tasks, r)
	return bare(r.task()), nil
}

func (t *tx) endTrigger(finished time.Time, m move) {
	g, born := t.triggers.rows[m.row.key()]
	if m.row.Job == "" || !born || g.TaskID != m.row.ID || g.Outcome != "" {
		return
	}
	before := g.Reason
	switch {
	case m.end == jobs.StateLost:
		g.Outcome, g.Reason = string(jobs.Lost), m.reason
	case m.end == jobs.StateCancelled && (m.row.Attempt == 0 || m.never && m.row.Attempt == 1):
		g.Outcome, g.Reason = string(jobs.Skipped), "cancelled"
		if m.code == reason.LockWait || m.code == reason.Replaced || m.code == reason.Suspended {
			g.Reason = m.reason
		}
	default:
		line, _, _ := strings.Cut(m.failure, "\n")
		g.Outcome, g.Reason = string(jobs.Ran), cmp.Or(m.reason, strings.TrimSpace(line))
	}
	if g.ReasonCode == reason.Forced {
		g.Reason = appended(before, g.Reason)
	}
	g.ReasonCode = cmp.Or(m.code, g.ReasonCode)
	g.Result, g.FinishedAt = string(m.end), micros(finished)
	put(t, &t.triggers, g)
}

// appended is why, behind what says that the run was forced.
func appended(before, why string) string {
	if why == "" {
		return before
	}
	return before + "; " + why
}

// unstartTrigger undoes the start of a first attempt that is handed back.
func (t *tx) unstartTrigger(r Task) {
	if g, born := t.triggers.rows[r.key()]; r.Job != "" && r.Attempt == 1 && born && g.TaskID == r.ID && g.Outcome == "" {
		g.StartedAt = 0
		put(t, &t.triggers, g)
	}
}
