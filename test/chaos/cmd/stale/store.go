package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql" // both are opened by name
	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// holding is a task as one of its owners had it.
type holding struct {
	task, session string
	token         int64
}

// staleOwners writes to the store as recorded owners.
type staleOwners struct {
	store      *store.Store
	db         *sql.DB
	log        *history.Log[history.Stale]
	remembered []holding // the oldest first
}

const (
	memory   = 300 // holdings
	perRound = 10  // writes
)

// row is a task as it is now.
type row struct {
	State   string // "running", "open", or how it ended
	Session string
	Token   int64
	Attempt int
}

// writeAll records the present owners, and writes in the name of stale ones.
func (o *staleOwners) writeAll(ctx context.Context) error {
	written := 0
	var still []holding
	for i, h := range o.remembered {
		if written == perRound {
			still = append(still, o.remembered[i:]...)
			break
		}
		r, found, err := o.row(ctx, h.task)
		if err != nil {
			return err
		}
		result, over := stale(h, r)
		switch {
		case !found: // swept
		case !over:
			still = append(still, h)
		default:
			written++
			if err := o.write(ctx, h, r, result); err != nil {
				return err
			}
		}
	}
	o.remembered = still
	return errors.Join(o.beat(ctx), o.look(ctx))
}

// stale reports whether h has certainly ended, and an end that its owner must not be able to write. The end of
// a lost attempt may still come from its owner, so that is left alone.
func stale(h holding, r row) (jobs.State, bool) {
	switch {
	case r.Token > h.token:
		return jobs.StateSucceeded, true
	case r.State == "running", r.State == "open", r.State == string(jobs.StateLost):
		return "", false
	case r.State == string(jobs.StateSucceeded):
		return jobs.StateFailed, true
	}
	return jobs.StateSucceeded, true
}

// write replays an end, a release, a later deadline, a progress and a part of an output.
func (o *staleOwners) write(ctx context.Context, h holding, before row, end jobs.State) error {
	finish := func(verdict ledger.Verdict, state jobs.State) func() (bool, error) {
		return func() (bool, error) {
			out, err := o.store.Sides().Replica.Finish(ctx, h.session, []ledger.Result{{TaskID: h.task, Token: h.token, Verdict: verdict, State: state, Reason: "stale owner"}})
			return err == nil && out[0].Finish == ledger.Fenced, err
		}
	}
	extend := func() (bool, error) {
		ours, err := o.store.Sides().Replica.Extend(ctx, h.session, []ledger.Extension{{TaskID: h.task, Token: h.token, Until: time.Now().Add(time.Hour)}})
		return err == nil && !ours[0], err
	}
	report := func() (bool, error) {
		ours, err := o.store.Sides().Replica.Report(ctx, h.session, []ledger.Progress{{TaskID: h.task, Token: h.token, Done: 1, Text: "stale owner"}})
		return err == nil && !ours[0], err
	}
	output := func() (bool, error) {
		ours, err := o.store.Sides().Replica.WriteOutput(ctx, h.session, []ledger.Chunk{{TaskID: h.task, Token: h.token, Data: []byte("stale owner")}})
		return err == nil && !ours[0], err
	}
	for _, replay := range []struct {
		what string
		call func() (refused bool, err error)
	}{
		{"finish", finish(ledger.Ended, end)},
		{"handback", finish(ledger.HandBack, jobs.StatePending)},
		{"extend", extend},
		{"report", report},
		{"output", output},
	} {
		s := history.Stale{At: time.Now(), What: replay.what, TaskID: h.task, Token: h.token}
		refused, err := replay.call()
		if err != nil {
			return err // no answer: nothing was refused
		}
		after, found, err := o.row(ctx, h.task)
		if err != nil {
			return err
		}
		s.Refused = refused
		// The present owner may have written meanwhile; the row must not be h's again, nor may an end change.
		s.Changed = !found || after.Token <= h.token && after != before || ended(before) && after != before
		if err := o.log.Add(s); err != nil {
			return err
		}
	}
	return nil
}

func ended(r row) bool { return r.State != "running" && r.State != "open" }

// beat is a heartbeat of the session that expired last.
func (o *staleOwners) beat(ctx context.Context) error {
	var session string
	err := o.db.QueryRowContext(ctx, "SELECT id FROM lockstep_sessions WHERE dead = 1 ORDER BY seen_at DESC LIMIT 1").Scan(&session)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	s := history.Stale{At: time.Now(), What: "beat", TaskID: session}
	_, err = o.store.Sides().Replica.Beat(ctx, session)
	s.Refused = errors.Is(err, ledger.ErrSessionDead)
	if err != nil && !s.Refused {
		return err
	}
	var dead int
	switch err := o.db.QueryRowContext(ctx, "SELECT dead FROM lockstep_sessions WHERE id = ?", session).Scan(&dead); {
	case errors.Is(err, sql.ErrNoRows): // swept
	case err != nil:
		return err
	default:
		s.Changed = dead == 0
	}
	return o.log.Add(s)
}

// look records the owners of running tasks.
func (o *staleOwners) look(ctx context.Context) error {
	rows, err := o.db.QueryContext(ctx, "SELECT id, session_id, token FROM lockstep_tasks WHERE state = 2")
	if err != nil {
		return err
	}
	defer rows.Close()
	known := map[holding]bool{}
	for _, h := range o.remembered {
		known[h] = true
	}
	for rows.Next() {
		var h holding
		if err := rows.Scan(&h.task, &h.session, &h.token); err != nil {
			return err
		}
		if !known[h] {
			o.remembered = append(o.remembered, h)
		}
	}
	o.remembered = o.remembered[max(0, len(o.remembered)-memory):]
	return rows.Err()
}

// row reads a task in either table. It moves between them in one transaction: if it is in neither, read again.
func (o *staleOwners) row(ctx context.Context, task string) (r row, found bool, err error) {
	for range 2 {
		for _, query := range []string{
			"SELECT CASE state WHEN 2 THEN 'running' ELSE 'open' END, session_id, token, attempt FROM lockstep_tasks WHERE id = ?",
			"SELECT state, session_id, token, attempt FROM lockstep_done WHERE id = ?",
		} {
			err := o.db.QueryRowContext(ctx, query, task).Scan(&r.State, &r.Session, &r.Token, &r.Attempt)
			if err == nil {
				return r, true, nil
			}
			if !errors.Is(err, sql.ErrNoRows) {
				return row{}, false, fmt.Errorf("task %s: %w", task, err)
			}
		}
	}
	return row{}, false, nil
}
