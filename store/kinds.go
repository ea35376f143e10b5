package store

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/nearest"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// kinds are the kinds of tasks that may be claimed; "" is for tasks without a kind. Nil: any.
type kinds []string

// noKinds is for a configuration that does not have the pool.
var noKinds = kinds{}

func (k kinds) have(kind string) bool { return k == nil || slices.Contains(k, kind) }

// and is what either of them has.
func (k kinds) and(other kinds) kinds {
	if k == nil || other == nil {
		return nil
	}
	return append(noKinds, sqlkit.Distinct(slices.Concat(k, other))...)
}

// handled is what {pools} and {kinds} keep: what a configuration has handlers for in a pool.
type handled struct {
	Hash  string            `json:"hash"`  // of the pool's definition; "": programs declared the kinds
	Kinds map[string]string `json:"kinds"` // as in PoolDef; nil: any
}

func (h handled) encode() []byte {
	text, _ := json.Marshal(h) // strings always encode
	return text
}

func (h handled) names() kinds {
	if h.Kinds == nil {
		return nil
	}
	return append(noKinds, slices.Sorted(maps.Keys(h.Kinds))...)
}

// governs is the row's kinds, for the pool's row: a program without kinds may have defined the pool since.
func (h handled) governs(pool string) kinds {
	if h.Hash != "" && h.Hash != pool {
		return nil
	}
	return h.names()
}

// beside is the kinds that a replica with h may claim while top governs.
func (h handled) beside(top handled) kinds {
	if h.Hash == top.Hash {
		return h.names()
	}
	return ledger.SharedKinds(h.Kinds, top.Kinds)
}

// keepKinds writes the kinds of the pools of a configuration.
func (t *tx) keepKinds(config int64, pools []ledger.PoolDef) error {
	all := make([]kindsModel, len(pools))
	for i, p := range pools {
		all[i] = kindsModel{p.Name, config, encoded[handled]{handled{p.Hash, p.Kinds}}}
	}
	return upsert(t, "{kinds}", all)
}

// loaded is what a live replica has, by pool; none: its program is older than {kinds}.
type loaded struct {
	config   int64
	draining bool
	pools    map[string]handled
}

// loaded is all of them, the newest last. Sessions with the same configuration are one, which drains if all of them do.
//
// Index: sessions_dead, then the primary key of kinds.
func (t *tx) loaded() ([]*loaded, error) {
	by := map[int64]*loaded{}
	// A session that has loaded has a row for the pool default at least, unless its program is older than the table.
	err := each(t.rows(`SELECT s.config, s.draining, COALESCE(k.pool, '') AS pool, COALESCE(k.kinds, '') AS kinds FROM {sessions} s
		LEFT JOIN {kinds} k ON k.config = s.config WHERE s.dead = 0 AND s.config > 0`), func(m *struct {
		Row      kindsModel `gorm:"embedded"`
		Draining bool
	}) {
		if by[m.Row.Config] == nil {
			by[m.Row.Config] = &loaded{m.Row.Config, true, map[string]handled{}}
		}
		by[m.Row.Config].draining = by[m.Row.Config].draining && m.Draining
		if m.Row.Pool != "" {
			by[m.Row.Config].pools[m.Row.Pool] = m.Row.Kinds.is
		}
	})
	return slices.SortedFunc(maps.Values(by), func(a, b *loaded) int { return cmp.Compare(a.config, b.config) }), err
}

// liveKinds is what live replicas may claim, by pool: all kinds of the newest of them, which governs or is about to,
// and those that the others have in the same way. A pool is absent if no replica that takes tasks has it. live is false while
// no replica takes tasks. nil, live: the newest has not written its kinds, so it may have any. byWorkers are those of the newest whose tasks
// workers run: replicas let them claim these.
func (t *tx) liveKinds() (by, byWorkers map[string]kinds, live bool, err error) {
	all, err := t.loaded()
	if err != nil || len(all) == 0 {
		return map[string]kinds{}, nil, false, err
	}
	top := all[len(all)-1]
	by, byWorkers = map[string]kinds{}, map[string]kinds{}
	for pool, h := range top.pools {
		if own := those(h.names(), func(kind string) bool { return ledger.ByWorkers(h.Kinds[kind]) }); len(own) > 0 {
			byWorkers[pool] = own
		}
	}
	for _, l := range all {
		if l.draining {
			continue
		}
		live = true
		if len(l.pools) == 0 {
			l = top // with the same definitions it has no less, and with others it claims nothing
		}
		for pool, h := range l.pools {
			has := h.beside(top.pools[pool])
			if before, is := by[pool]; is {
				has = has.and(before)
			}
			by[pool] = has
		}
	}
	if live && len(top.pools) == 0 {
		return nil, nil, true, nil
	}
	return by, byWorkers, live, nil
}

// takenByWorkers is which kinds live workers take, by pool. Where no pool is for workers, nothing is read.
//
// Index: sessions_dead.
func (t *tx) takenByWorkers(pools map[string]kinds) (map[string]kinds, error) {
	taken := map[string]kinds{}
	if len(pools) == 0 {
		return taken, nil
	}
	return taken, each(t.rows("SELECT pool, kinds FROM {sessions} WHERE dead=0 AND pool<>''"), func(m *sessionModel) {
		taken[m.Pool] = append(taken[m.Pool], m.Kinds.is...)
	})
}

// refuseUnrunnable refuses the first new task of the batch with a kind that the configuration that governs its
// pool does not have and that no live replica may claim. governing is the kinds of that configuration, by pool.
func (t *tx) refuseUnrunnable(batch []*newTask, governing map[string]kinds) error {
	ask := sync.OnceValues(func() (map[string]kinds, error) {
		by, _, _, err := t.liveKinds()
		return by, err
	})
	for i, p := range batch {
		if p.existed || p.force || governing[p.task.Pool].have(p.task.Kind) {
			continue
		}
		by, err := ask()
		if err != nil {
			return err
		}
		live, known := by[p.task.Pool]
		if by == nil || known && live.have(p.task.Kind) {
			continue
		}
		has := governing[p.task.Pool].and(append(noKinds, live...))
		return &jobs.KindError{
			Index: i, Pool: p.task.Pool, Kind: p.task.Kind, Kinds: has,
			Nearest: nearest.Of(p.task.Kind, slices.DeleteFunc(slices.Clone(has), func(kind string) bool { return kind == "" })),
		}
	}
	return nil
}

// unrunnableLook is how many tasks of a pool are read, the first in the order of claims: tasks that no replica takes
// come to be first there.
const unrunnableLook = 5000

// unrunnableQuery counts the first tasks of some pools by kind. For a list of pools it would read all of them, see lostTasks.
//
// Index: tasks_claim, equality on state and pool, in its order; kind and job are read from the rows.
func unrunnableQuery(pools []string) (text string, args []any) {
	var looks []string
	for _, name := range pools {
		looks = append(looks, `SELECT pool, kind, COUNT(*) AS n, MIN(run_at) AS since FROM (SELECT pool, kind, job, run_at FROM {tasks}{index}{tasks}_claim{end}
			WHERE state=0 AND pool=? ORDER BY rank_order, run_at, id LIMIT ?) AS first WHERE job='' GROUP BY pool, kind`)
		args = append(args, name, unrunnableLook)
	}
	return strings.Join(looks, " UNION ALL "), args
}

// unrunnable replaces the kinds of rows by those that live replicas may claim, and adds the due tasks that no replica may claim.
func (t *tx) unrunnable(rows map[string]*ledger.PoolStatus) error {
	by, byWorkers, live, err := t.liveKinds()
	if err != nil {
		return err
	}
	if by == nil {
		for _, p := range rows {
			p.Kinds = nil
		}
		return nil
	}
	taken, err := t.takenByWorkers(byWorkers)
	if err != nil {
		return err
	}
	var looks []string
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		p := rows[name]
		has, known := by[name]
		switch {
		case p.Hash == "":
			has = noKinds
			if p.Pending > 0 {
				p.Unrunnable = []ledger.Unrunnable{{Tasks: p.Pending, Since: p.OldestPending}}
			}
		case !live:
			has = p.Kinds // as it governs
		case !known:
			has = noKinds
		}
		if p.ByWorkers = byWorkers[name]; len(p.ByWorkers) > 0 && has != nil && p.Hash != "" {
			has = those(has, func(kind string) bool {
				return !slices.Contains(p.ByWorkers, kind) || slices.Contains(taken[name], kind)
			})
			if has == nil {
				has = noKinds
			}
		}
		if p.Kinds = has; has == nil || p.Hash == "" || p.Pending == 0 {
			continue
		}
		looks = append(looks, name)
	}
	for part := range slices.Chunk(looks, 100) {
		text, args := unrunnableQuery(part)
		err := each(t.rows(text, args...), func(c *tally) {
			if p := rows[c.Pool]; !kinds(p.Kinds).have(c.Kind) {
				p.Unrunnable = append(p.Unrunnable, ledger.Unrunnable{Kind: c.Kind, Tasks: c.N, Since: fromMicros(c.Since)})
			}
		})
		if err != nil {
			return err
		}
	}
	for _, p := range rows {
		slices.SortFunc(p.Unrunnable, func(a, b ledger.Unrunnable) int { return strings.Compare(a.Kind, b.Kind) })
	}
	return nil
}
