//go:build linux

package arena

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Calendars of the run: each other minute is closed to jobs that leave oddMinutes out, and to those that keep to evenMinutes. Hours have no shorter parts, and so
// each run sees some of them begin and end.
const (
	oddMinutes  = "odd-minutes"
	evenMinutes = "even-minutes"
)

// Calendars reach from before the run, for clocks that are set back, to behind it: a calendar has at most 100 lines of hours.
const (
	calendarBefore = 70 * time.Minute
	calendarSpans  = 100
)

// calendarsOfRun are the calendars of a run that begins at a moment.
func calendarsOfRun(begin time.Time) (all []history.Calendar) {
	first := begin.UTC().Truncate(2 * time.Minute).Add(-calendarBefore)
	for i, name := range []string{evenMinutes, oddMinutes} {
		c := history.Calendar{Name: name}
		for n := range calendarSpans {
			from := first.Add(time.Duration(2*n+i) * time.Minute)
			c.Spans = append(c.Spans, history.Span{From: from, Until: from.Add(time.Minute)})
		}
		all = append(all, c)
	}
	return all
}

// hours are those of a calendar as the configuration writes them, for each day.
func hours(c history.Calendar) (lines []string) {
	for _, s := range c.Spans {
		until := s.Until.Format("15:04")
		if until == "00:00" {
			until = "24:00"
		}
		lines = append(lines, fmt.Sprintf("* %s-%s", s.From.Format("15:04"), until))
	}
	return lines
}

// times is what the configuration says of the calendars of a job, and of when its runs start.
func times(j history.Job) (text string) {
	if j.Spread > 0 {
		text += fmt.Sprintf("spread: %v, ", j.Spread)
	}
	if j.Jitter > 0 {
		text += fmt.Sprintf("jitter: %v, ", j.Jitter)
	}
	if len(j.Exclude)+len(j.Only) > 0 {
		otherwise := "skip"
		if j.Next {
			otherwise = "next"
		}
		text += fmt.Sprintf("calendars: {exclude: [%s], only: [%s], otherwise: %s}, ", strings.Join(j.Exclude, ", "), strings.Join(j.Only, ", "), otherwise)
	}
	return text
}

// jitterNamespace is what jitter is drawn by: the name in the configuration or, without one, the id that the first migration gave the store.
func (a *Arena) jitterNamespace(ctx context.Context) (id string, err error) {
	if a.namespace() != "" {
		return clusterName, nil
	}
	err = a.database(func(db *sql.DB, _ dialect) error {
		return db.QueryRowContext(ctx, "SELECT value FROM "+prefix+"meta WHERE name = 'namespace'").Scan(&id)
	})
	return id, err
}
