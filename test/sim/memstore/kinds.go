package memstore

import (
	"encoding/json"
	"slices"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// Kinds is a row of kinds.
type Kinds struct {
	Pool   string `col:"pool"`
	Config int64  `col:"config"`
	Kinds  []byte `col:"kinds"`
}

type kindsKey struct {
	pool   string
	config int64
}

func (t *tx) keepKinds(config int64, pool string, kinds []string) {
	text, _ := json.Marshal(kinds) // strings always encode
	put(t, &t.kinds, Kinds{pool, config, text})
}

// kindsOf is what a configuration has in a pool: any, if it does not say.
func (t *tx) kindsOf(pool string, config int64) (kinds []string, any bool) {
	row, said := t.kinds.rows[kindsKey{pool, config}]
	if !said {
		return nil, config == 0
	}
	_ = json.Unmarshal(row.Kinds, &kinds) // keepKinds wrote it
	return kinds, kinds == nil
}

// liveKinds is what the live replicas have in a pool.
func (t *tx) liveKinds(pool string) (kinds []string, any, live bool) {
	kinds = []string{}
	for _, s := range t.sessions.rows {
		if s.Dead || s.Draining || s.Config == 0 {
			continue
		}
		live = true
		says := false
		for key := range t.kinds.rows {
			says = says || key.config == s.Config
		}
		has, all := t.kindsOf(pool, s.Config)
		kinds, any = append(kinds, has...), any || all || !says
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), any, live
}

// runnable refuses a task that nobody can run.
func (t *tx) runnable(index int, n jobs.NewTask) error {
	governing, all := t.kindsOf(n.Pool, 0)
	live, any, _ := t.liveKinds(n.Pool)
	if n.Force || all || any || slices.Contains(governing, n.Kind) || slices.Contains(live, n.Kind) {
		return nil
	}
	all2 := slices.Sorted(slices.Values(slices.Concat(governing, live)))
	return &jobs.KindError{Index: index, Pool: n.Pool, Kind: n.Kind, Kinds: slices.Compact(all2)}
}

// unrunnable says what kinds a pool's live replicas have, and what is due and waits for nobody.
func (t *tx) unrunnable(p *ledger.PoolStatus) {
	kinds, any, live := t.liveKinds(p.Name)
	if !live {
		kinds, any = t.kindsOf(p.Name, 0)
	}
	if any {
		return
	}
	p.Kinds = kinds
	by := map[string]*ledger.Unrunnable{}
	for _, r := range t.tasks.rows {
		if r.Pool != p.Name || r.State != Ready || p.Hash != "" && (r.Job != "" || slices.Contains(kinds, r.Kind)) {
			continue
		}
		kind := r.Kind
		if p.Hash == "" {
			kind = ""
		}
		u := by[kind]
		if u == nil {
			u = &ledger.Unrunnable{Kind: kind, Since: fromMicros(r.RunAt)}
			by[kind] = u
		}
		u.Tasks++
		if at := fromMicros(r.RunAt); at.Before(u.Since) {
			u.Since = at
		}
	}
	for _, u := range by {
		p.Unrunnable = append(p.Unrunnable, *u)
	}
	slices.SortFunc(p.Unrunnable, func(a, b ledger.Unrunnable) int {
		if a.Kind < b.Kind {
			return -1
		}
		return 1
	})
}
