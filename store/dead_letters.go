package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// The bounds of a page of dead letters. With them it costs the same however many tasks have ended: a look at the index for each pool and
// each group, and so many entries of it to count a group.
const (
	deadGroups  = 100  // on a page
	deadLooks   = 500  // for the groups of a page, in whatever pools
	deadCounted = 1000 // of a group
	deadError   = 1024 // bytes of the example's error
)

// DeadLetters lists what failed, or was lost, for good and was not retried since, in groups of those that ended in the same way. A
// group is counted up to 1,000.
//
// Errors: jobs.ErrInvalid for a limit or a cursor that is none, and for a fingerprint without a pool; jobs.ErrUnavailable.
func (s *Store) DeadLetters(ctx context.Context, f wire.DeadLetterFilter) (groups []wire.DeadLetters, next string, err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return nil, "", err
	}
	after, err := readCursor(f.Cursor, "dead", 2)
	if err != nil {
		return nil, "", err
	}
	if f.Fingerprint != "" && f.Pool == "" {
		return nil, "", fmt.Errorf("%w: a fingerprint is of tasks of one pool: name the pool, too", jobs.ErrInvalid)
	}
	err = s.view(ctx, "dead letters", func(t *tx) error {
		found := []deadGroup{{Pool: f.Pool, Fingerprint: f.Fingerprint}}
		if f.Fingerprint == "" {
			found, next, err = t.deadGroups(f.Pool, after, min(limit, deadGroups))
		}
		if err == nil {
			err = t.countDead(found)
		}
		if err == nil {
			groups, err = t.deadExamples(found)
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return groups, next, nil
}

// deadGroup is one as its index tells of it.
type deadGroup struct {
	Pool, Fingerprint string
	ID                string // the largest
	N                 int
	FirstAt, LastAt   int64
}

// deadGroups finds up to n groups behind a cursor, and the cursor of those that follow. Each is looked up by itself: what is between two of
// them, the tasks of the first one, is not read. Neither MySQL nor MariaDB does that for a GROUP BY or a recursive query in all
// versions: they may read all that have ended.
//
// Index: primary key of pools; done_dead.
func (t *tx) deadGroups(pool string, after []string, n int) (groups []deadGroup, next string, err error) {
	pools := []string{pool}
	at := deadGroup{}
	if after != nil {
		at = deadGroup{Pool: after[0], Fingerprint: after[1]}
	}
	if pool == "" {
		pools, err = column[string](t.rows("SELECT name FROM {pools} WHERE name>=? ORDER BY name LIMIT ?", at.Pool, deadLooks))
	}
	for i, looks := 0, 0; i < len(pools) && err == nil; looks++ {
		if pools[i] != at.Pool {
			at = deadGroup{Pool: pools[i]}
		}
		if len(groups) == n || looks == deadLooks {
			return groups, deadCursor(at), nil
		}
		found, err := t.One("SELECT fingerprint FROM {done}{index}{done}_dead{end} WHERE pool=? AND fingerprint>? AND fingerprint>'' ORDER BY fingerprint LIMIT 1",
			[]any{at.Pool, at.Fingerprint}, &at.Fingerprint)
		switch {
		case err != nil:
			return nil, "", err
		case !found:
			i++
		default:
			groups = append(groups, deadGroup{Pool: at.Pool, Fingerprint: at.Fingerprint})
		}
	}
	if len(pools) == deadLooks && err == nil { // there may be more pools
		next = deadCursor(at)
	}
	return groups, next, err
}

func deadCursor(g deadGroup) string { return paging.Cursor("dead", g.Pool, g.Fingerprint) }

// countDead fills in the numbers and times of groups, and their latest ids. A group that is gone has none.
//
// Index: done_dead, which has all that is read.
func (t *tx) countDead(groups []deadGroup) error {
	latest := func(order string) func(g deadGroup) (string, []any) {
		return func(g deadGroup) (string, []any) {
			n := deadCounted + 1
			if order == "id" {
				n = 1
			}
			return `SELECT MAX(pool) AS pool, MAX(fingerprint) AS fingerprint, MAX(id) AS id, COUNT(*) AS n, MIN(finished_at) AS first_at, MAX(finished_at) AS last_at FROM (
				SELECT pool, fingerprint, id, finished_at FROM {done}{index}{done}_dead{end} WHERE pool=? AND fingerprint=? AND fingerprint>'' ORDER BY ` + order + ` LIMIT ?) AS latest
				HAVING COUNT(*)>0`, []any{g.Pool, g.Fingerprint, n}
		}
	}
	if err := t.eachDead(groups, latest("id DESC"), func(is *deadGroup, m *deadGroup) { *is = *m }); err != nil {
		return err
	}
	return t.eachDead(those(groups, func(g deadGroup) bool { return g.N > deadCounted }), latest("id"), func(is *deadGroup, m *deadGroup) {
		for i, g := range groups {
			if g.Pool == m.Pool && g.Fingerprint == m.Fingerprint {
				groups[i].FirstAt = m.FirstAt
			}
		}
	})
}

// eachDead reads a row of each group, in one statement.
func (t *tx) eachDead(groups []deadGroup, one func(deadGroup) (string, []any), fn func(is, m *deadGroup)) error {
	var looks []string
	var args []any
	for _, g := range groups {
		text, its := one(g)
		looks, args = append(looks, text), append(args, its...)
	}
	if len(looks) == 0 {
		return nil
	}
	return each(t.rows(strings.Join(looks, " UNION ALL "), args...), func(m *deadGroup) {
		for i, g := range groups {
			if g.Pool == m.Pool && g.Fingerprint == m.Fingerprint {
				fn(&groups[i], m)
			}
		}
	})
}

// deadExamples makes groups of what was found, each with the task that was enqueued last.
//
// Index: primary key.
func (t *tx) deadExamples(found []deadGroup) ([]wire.DeadLetters, error) {
	ids := sqlkit.Keys(mapped(those(found, func(g deadGroup) bool { return g.N > 0 }), func(g deadGroup) string { return g.ID }))
	examples := map[string]wire.DeadLetters{}
	err := each(t.rows("SELECT id, kind, job, state, reason, reason_code, SUBSTR(error, 1, ?) AS error FROM {done} WHERE {in name id}", ids, deadError), func(m *struct {
		ID, Kind, Job, Reason string
		State                 jobs.State
		ReasonCode            reason.Code
		Error                 []byte
	}) {
		examples[m.ID] = wire.DeadLetters{
			Kind: m.Kind, Job: m.Job, State: m.State, Reason: m.Reason, ReasonCode: m.ReasonCode, Error: clip.Text(strings.ToValidUTF8(string(m.Error), ""), deadError), TaskID: m.ID, // SQLite has cut characters, MySQL bytes
		}
	})
	groups := make([]wire.DeadLetters, 0, len(found))
	for _, g := range found {
		if like, is := examples[g.ID]; is { // it may have been swept since
			like.Pool, like.Fingerprint, like.Count, like.AtLeast = g.Pool, g.Fingerprint, min(g.N, deadCounted), g.N > deadCounted
			like.First, like.Last = fromMicros(g.FirstAt), fromMicros(g.LastAt)
			groups = append(groups, like)
		}
	}
	return groups, err
}
