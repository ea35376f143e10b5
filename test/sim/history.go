package sim

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// entry is one event. It becomes text on demand.
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
		state := []string{"ready", "waits", "running", "locked", "", "queued"}[r.State]
		return fmt.Sprintf("task %s %s@%s/%d %s attempt %d token %d session %.13s until %s run at %s %s", r.ID, r.Job+r.Pool, clock(r.TriggerAt), r.TriggerSeq,
			state, r.Attempt, r.Token, tail(r.Session), clock(r.MayRunUntil), clock(r.RunAt), r.Reason+r.Cancel)
	case memstore.Done:
		return fmt.Sprintf("done %s %s@%s/%d %s attempt %d token %d %s", r.ID, r.Job+r.Pool, clock(r.TriggerAt), r.TriggerSeq, r.State, r.Attempt, r.Token, r.Reason)
	case memstore.Trigger:
		return fmt.Sprintf("trigger %s@%s/%d…%s ×%d %q %s %s", r.Job, clock(r.At), r.Seq, clock(r.Until), r.Count, r.Outcome, r.Reason, r.TaskID)
	case memstore.Job:
		return fmt.Sprintf("job %s cursor %s next %s fence %d hash %.6s schedule %.6s busy until %s", r.Name, clock(r.Cursor), clock(r.Next), r.Fence, r.Hash, r.Schedule, clock(r.BusyUntil))
	case memstore.Session:
		return fmt.Sprintf("session %s of %s beat %d dead %v config %d", tail(r.ID), r.Replica, r.Beat, r.Dead, r.Config)
	case memstore.Order:
		return fmt.Sprintf("order %s %s of %s %s %s next %s %s %s", r.ID, r.Kind, r.Job, r.State, r.ReasonCode, clock(r.Next), r.Asked, r.Progress)
	case memstore.Event:
		return fmt.Sprintf("event %s %s of %s %s@%s/%d attempt %d on %s at %s %s", tail(r.ID), r.Event, r.TaskID, r.Job+r.Pool, clock(r.TriggerAt), r.TriggerSeq, r.Attempt, r.Replica, clock(r.HappenedAt), r.Reason)
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

// violation is a broken invariant, and its job or task.
type violation struct{ about, text string }

// story has the last entries about a job or task, and the events of replicas.
func (w *world) story(about string, n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, e := range w.history {
		if after, is := e.change.After.(memstore.Session); is {
			if before, existed := e.change.Before.(memstore.Session); existed && before.Dead == after.Dead {
				continue // a heartbeat
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

// Events of replicas are part of every story.
const (
	startedWith = "started with configuration %d"
	endedWith   = "ended: %v"
	isKilled    = "is killed"
)

// logger keeps the log of a replica.
func (w *world) logger(id string) *slog.Logger { return slog.New(&tape{w, id}) }
