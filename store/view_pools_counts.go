package store

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// countAll reads index tasks_claim, alone.
func (t *tx) countAll(of poolsByName) error {
	return each(t.rows(`SELECT pool, state, COUNT(*) AS n, MIN(run_at) AS since FROM {tasks} GROUP BY state, pool`), func(c *tally) { countIn(of, c) })
}

// countIn adds the number of the tasks of a pool in one state.
func countIn(of poolsByName, c *tally) {
	switch p, state := of[c.Pool], rowState(c.State); {
	case p == nil:
	case state == rowReady, state == rowLocked, state == rowKeyed, state == rowQueued:
		p.Pending += c.N
		waitsSince(p, fromMicros(c.Since))
	case state == rowWaits:
		p.Scheduled = c.N
	case state == rowRunning:
		p.Running = c.N
	}
}

func waitsSince(p *ledger.PoolStatus, at time.Time) {
	if !at.IsZero() && (p.OldestPending.IsZero() || at.Before(p.OldestPending)) {
		p.OldestPending = at
	}
}

// poolState is a state of a pool, and the rank up to which its oldest task was looked for.
type poolState struct {
	pool  string
	state int
	rank  int
}

// countSome counts of each pool and state ledger.PoolMost tasks at most, and all that run, which are as many as there is room for. Where
// there are more, the first of each priority are read for the oldest one: in the order of claims that is the one which is due first.
//
// Index: tasks_claim, alone: equality on state and pool, in its order.
func (t *tx) countSome(of poolsByName) error {
	var states, more []poolState
	for _, name := range slices.Sorted(maps.Keys(of)) {
		for _, state := range []int{rowReady, rowWaits, rowLocked, rowKeyed, rowQueued} {
			states = append(states, poolState{pool: name, state: state, rank: -1 << 16})
		}
	}
	running := `SELECT pool, '2' AS state, COUNT(*) AS n, 0 AS since FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 GROUP BY pool UNION ALL `
	for part := range slices.Chunk(states, statesAtOnce) {
		text, args := countQuery(part)
		text, running = running+text, "" // once
		err := each(t.rows(text, args...), func(c *tally) {
			p, state := of[c.Pool], rowState(c.State)
			if c.N > ledger.PoolMost {
				c.N, p.Approximate = ledger.PoolMost, true
				if state != rowWaits {
					more = append(more, poolState{pool: c.Pool, state: state, rank: -1 << 16})
				}
			}
			countIn(of, c)
		})
		if err != nil {
			return err
		}
	}
	for len(more) > 0 {
		var next []poolState
		for part := range slices.Chunk(more, statesAtOnce) {
			text, args := firstQuery(part)
			err := each(t.rows(text, args...), func(c *firstTask) {
				waitsSince(of[c.Pool], fromMicros(c.RunAt))
				next = append(next, poolState{c.Pool, rowState(c.State), c.RankOrder})
			})
			if err != nil {
				return err
			}
		}
		more = next
	}
	return nil
}

// statesAtOnce is how many states of pools one statement reads.
const statesAtOnce = 100

type firstTask struct {
	Pool, State string
	RankOrder   int
	RunAt       int64
}

func countQuery(states []poolState) (text string, args []any) {
	var counts []string
	for _, s := range states {
		counts = append(counts, `SELECT ? AS pool, ? AS state, COUNT(*) AS n, COALESCE(MIN(run_at), 0) AS since FROM (SELECT run_at FROM {tasks}{index}{tasks}_claim{end}
			WHERE state=? AND pool=? ORDER BY rank_order, run_at, id LIMIT ?) AS first`)
		args = append(args, s.pool, strconv.Itoa(s.state), s.state, s.pool, ledger.PoolMost+1)
	}
	return strings.Join(counts, " UNION ALL "), args
}

// firstQuery reads the first task of the next rank of each state.
func firstQuery(states []poolState) (text string, args []any) {
	var firsts []string
	for _, s := range states {
		firsts = append(firsts, `SELECT ? AS pool, ? AS state, rank_order, run_at FROM (SELECT rank_order, run_at FROM {tasks}{index}{tasks}_claim{end}
			WHERE state=? AND pool=? AND rank_order>? ORDER BY rank_order, run_at, id LIMIT 1) AS first`)
		args = append(args, s.pool, strconv.Itoa(s.state), s.state, s.pool, s.rank)
	}
	return strings.Join(firsts, " UNION ALL "), args
}
