package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// whyLive are the live replicas, what they take in a pool, and how many tasks they run.
//
// Index: sessions_dead; primary key of kinds; tasks_claim.
func (t *tx) whyLive(pool string) ([]ledger.LiveReplica, error) {
	all, err := list(t.rows("SELECT "+sessionColumns+" FROM {sessions} WHERE dead=0 AND pool=''"), func(m *sessionModel) ledger.LiveReplica {
		return ledger.LiveReplica{Peer: m.peer()}
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	has := map[int64]handled{}
	err = each(t.rows(`SELECT s.config, COALESCE(k.pool, '') AS pool, COALESCE(k.kinds, '') AS kinds FROM {sessions} s
		JOIN {kinds} k ON k.config=s.config AND k.pool=? WHERE s.dead=0 AND s.config>0`, pool), func(m *kindsModel) { has[m.Config] = m.Kinds.is })
	if err != nil {
		return nil, err
	}
	newest := slices.MaxFunc(all, func(a, b ledger.LiveReplica) int { return cmp.Compare(a.Config, b.Config) }).Config
	governs, defined := has[newest]
	for i := range all {
		r := &all[i]
		h, known := has[r.Config]
		if r.HasPool = known && defined; r.HasPool {
			r.Governs, r.Kinds = h.Hash == governs.Hash, h.beside(governs)
		}
	}
	slices.SortFunc(all, func(a, b ledger.LiveReplica) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Session, b.Session))
	})
	return all, t.countBusy(pool, all)
}

// whyWorkers are the live workers that take a kind of a pool.
//
// Index: sessions_dead.
func (t *tx) whyWorkers(pool, kind string) (all []ledger.Peer, err error) {
	err = each(t.rows("SELECT "+sessionColumns+" FROM {sessions} WHERE dead=0 AND pool=?", pool), func(m *sessionModel) {
		if p := m.peer(); slices.Contains(p.Kinds, kind) {
			all = append(all, p)
		}
	})
	slices.SortFunc(all, func(a, b ledger.Peer) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Session, b.Session))
	})
	return all, err
}

// countBusy counts the running tasks of replicas. Few tasks run: as many as there are workers.
//
// Index: tasks_claim.
func (t *tx) countBusy(pool string, of []ledger.LiveReplica) error {
	type busy struct {
		SessionID unpadded
		Pool      string
		N         int
	}
	sum := 0
	err := each(t.rows(`SELECT session_id, pool, COUNT(*) AS n FROM (SELECT session_id, pool FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 LIMIT ?) AS r
		GROUP BY session_id, pool`, ledger.WhyMost+1), func(b *busy) {
		sum += b.N
		for i := range of {
			if of[i].Session != string(b.SessionID) {
				continue
			}
			if of[i].Running += b.N; b.Pool == pool {
				of[i].PoolRunning += b.N
			}
		}
	})
	for i := range of {
		of[i].Uncounted = sum > ledger.WhyMost
	}
	return err
}

// runningOf counts the running tasks of a pool, or of those a part, and lists the first. The condition of the part begins with AND.
//
// Index: tasks_claim, equality on state and pool; a key is compared in the entries, a kind in the rows.
func (t *tx) runningOf(pool, part string, of ...any) (is ledger.Tally, err error) {
	where, args := " FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=?"+part, append([]any{pool}, of...)
	if is.Count, err = t.counted("SELECT COUNT(*) FROM (SELECT id"+where+" LIMIT ?) AS r", append(args, ledger.WhyMost+1)...); err != nil || is.N == 0 {
		return is, err
	}
	is.Tasks, err = list(t.rows("SELECT id, pool, kind, job, started_at, attempt, replica"+where+" ORDER BY rank_order, run_at, id LIMIT ?", append(args, ledger.WhyTasks)...),
		func(m *taskFields) ledger.RunningTask {
			return ledger.RunningTask{
				TaskID: m.ID, Pool: m.Pool, Kind: m.Kind, Job: m.Job, Since: fromMicros(m.StartedAt), Attempt: m.Attempt, Replica: string(m.Replica),
			}
		})
	return is, err
}

// counted is a number of at most ledger.WhyMost rows, of a statement that stops counting behind them.
func (t *tx) counted(text string, args ...any) (ledger.Count, error) {
	n := 0
	_, err := t.One(text, args, &n)
	return ledger.Count{N: min(n, ledger.WhyMost), More: n > ledger.WhyMost}, err
}

// aheadOf counts the ready tasks that claims take before one. Each part is a range of the index, which ends by its limit.
//
// Index: tasks_claim.
func (t *tx) aheadOf(r *openTask) (ledger.Count, error) {
	const ready = "(SELECT COUNT(*) FROM (SELECT id FROM {tasks}{index}{tasks}_claim{end} WHERE state=0 AND pool=? AND "
	rank, at, most := -r.Priority, micros(r.RunAt), ledger.WhyMost+1
	return t.counted("SELECT "+ready+"rank_order<? LIMIT ?) AS a)+"+ready+"rank_order=? AND run_at<? LIMIT ?) AS b)+"+
		ready+"rank_order=? AND run_at=? AND id<? LIMIT ?) AS c)",
		r.Pool, rank, most, r.Pool, rank, at, most, r.Pool, rank, at, r.ID, most)
}

const (
	paceFor  = 2 * time.Minute
	paceRows = 1000 // ends of each state that are read
)

// pace measures how many tasks of a pool end, by the latest ends of all pools. Where more have ended than are read, it goes by those
// that it has read.
//
// Index: done_state, the end of the range of each state.
func (t *tx) pace(pool string, now time.Time) (p ledger.Pace, err error) {
	type ended struct {
		at      int64
		counted bool
	}
	var all []ended
	since := micros(now.Add(-paceFor))
	for _, state := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled} {
		n, first := 0, int64(0)
		err := each(t.rows(`SELECT pool, started_at, finished_at FROM {done}{index}{done}_state{end} WHERE state=? AND finished_at>?
			ORDER BY finished_at DESC LIMIT ?`, string(state), micros(now.Add(-paceFor)), paceRows), func(m *taskFields) {
			n, first = n+1, m.FinishedAt
			all = append(all, ended{m.FinishedAt, m.Pool == pool && m.StartedAt > 0})
		})
		if err != nil {
			return p, err
		}
		if n == paceRows { // there may be more before that
			since = max(since, first)
		}
	}
	for _, e := range all {
		if e.counted && e.at > since {
			p.Ends++
		}
	}
	p.Since = fromMicros(since)
	return p, nil
}
