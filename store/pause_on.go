package store

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// watched are the locked rows of pools that are paused when their attempts fail, by name.
type watched map[string]poolModel

// watch locks the rows of the pools of results that count for a pause. So the ends of attempts in such a pool are recorded one transaction after the
// other, by whatever replicas. It must come before the rows of tasks are locked. Where no pool has pause_on it sends nothing.
//
// Index: primary key.
func (t *tx) watch(results []ledger.Result) (watched, error) {
	var names []string
	for _, r := range results {
		if r.PauseOn.Of > 0 && !r.Verdict.Undone() {
			names = append(names, r.PauseOn.Pool)
		}
	}
	pools := watched{}
	err := each(t.rows("SELECT name, paused, pause_window FROM {pools}{by_key} WHERE {in name name} ORDER BY name{for_update}", sqlkit.Keys(sqlkit.Distinct(names))),
		func(m *poolModel) { pools[m.Name] = *m })
	return pools, err
}

// pauseOn counts the ends of attempts, in the order of the results, and pauses the pools in which too many failed, with an event for each. A
// pool that is paused counts nothing.
//
// Index: primary key.
func (t *tx) pauseOn(now time.Time, pools watched, results []ledger.Result, moves []move) error {
	if len(pools) == 0 {
		return nil
	}
	failed := map[string][]bool{}
	on := map[string]jobs.PauseOn{}
	ended := make(map[claimed]jobs.State, len(moves))
	for _, m := range moves {
		ended[claimed{m.ID, m.Token}] = m.end
	}
	for _, r := range results {
		is := claimed{r.TaskID, r.Token}
		end, moved := ended[is]
		delete(ended, is) // of several results for one task the first counts
		pool, watches := pools[r.PauseOn.Pool]
		if !moved || !watches || pool.Paused != nil && *pool.Paused {
			continue
		}
		if end == jobs.StateSucceeded || end == jobs.StateFailed {
			failed[pool.Name], on[pool.Name] = append(failed[pool.Name], end == jobs.StateFailed), r.PauseOn.PauseOn
		}
	}
	var counted, paused [][]any
	var events []ledger.Event
	for name, ends := range failed {
		window, why := ledger.PauseWindow(pools[name].PauseWindow).Add(on[name], ends)
		if why == "" {
			counted = append(counted, []any{string(window), name})
			continue
		}
		paused = append(paused, []any{why, name})
		events = append(events, ledger.Event{Notification: jobs.Notification{Event: jobs.EventPaused, Pool: name, Reason: why}})
	}
	byName := func(a, b []any) int { return strings.Compare(a[1].(string), b[1].(string)) }
	slices.SortFunc(counted, byName)
	slices.SortFunc(paused, byName)
	if _, err := t.Exec("UPDATE {each}{pools}{by_key} SET pause_window={text window} WHERE {in name name}", sqlkit.Many(counted)); err != nil {
		return err
	}
	n, err := t.Exec("UPDATE {each}{pools}{by_key} SET paused=1, paused_by='"+ledger.PausedBy+"', pause_reason={text why}, pause_window='' WHERE COALESCE(paused, 0)=0 AND {in name name}",
		sqlkit.Many(paused))
	if err == nil && n != int64(len(paused)) {
		err = sqlkit.ErrMoved
	}
	if err != nil {
		return err
	}
	return t.keepEvents(now, events)
}
