package memstore

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
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

// handled is what a configuration has handlers for in a pool.
type handled struct {
	Hash  string            `json:"hash"`  // of the pool's definition; "": programs declared the kinds
	Kinds map[string]string `json:"kinds"` // nil: any
}

func (t *tx) keepKinds(config int64, pool string, h handled) {
	text, _ := json.Marshal(h) // strings always encode
	put(t, &t.kinds, Kinds{pool, config, text})
}

func (t *tx) handled(pool string, config int64) (h handled, said bool) {
	row, said := t.kinds.rows[kindsKey{pool, config}]
	if said {
		_ = json.Unmarshal(row.Kinds, &h) // keepKinds wrote it
	}
	return h, said
}

// governing is what the pool's row says has handlers: any, if it does not.
func (t *tx) governing(pool string) (kinds []string, any bool) {
	h, _ := t.handled(pool, 0)
	if h.Kinds == nil || h.Hash != "" && h.Hash != t.pools.rows[pool].Hash {
		return nil, true
	}
	return append([]string{}, slices.Sorted(maps.Keys(h.Kinds))...), false
}

// liveKinds is what the live replicas may claim in a pool.
func (t *tx) liveKinds(pool string) (kinds []string, any, live bool) {
	kinds = []string{}
	says := map[int64]bool{}
	for key := range t.kinds.rows {
		says[key.config] = true
	}
	highest := int64(0)
	for _, s := range t.sessions.rows {
		if !s.Dead {
			highest = max(highest, s.Config)
		}
	}
	top, has := t.handled(pool, highest)
	for _, s := range t.sessions.rows {
		if s.Dead || s.Draining || s.Config == 0 {
			continue
		}
		live = true
		own, said := t.handled(pool, s.Config)
		switch {
		case !says[highest]:
			any = true
		case !says[s.Config]:
			own, said = top, has
		}
		if !has || !said {
			continue
		}
		any = any || own.Hash == top.Hash && own.Kinds == nil
		for kind, hash := range own.Kinds {
			if own.Hash == top.Hash || top.Kinds[kind] == hash {
				kinds = append(kinds, kind)
			}
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), any, live
}

// byWorkers is which kinds workers run in a pool, by the newest configuration, and which of the kinds are runnable: what workers run is
// while a live one takes it.
func (t *tx) byWorkers(pool string, kinds []string) (byWorkers, runnable []string) {
	highest := int64(0)
	taken := map[string]bool{}
	for _, s := range t.sessions.rows {
		if s.Dead {
			continue
		}
		highest = max(highest, s.Config)
		if s.Pool == pool {
			var own []string
			_ = json.Unmarshal(s.Kinds, &own) // Join wrote it
			for _, kind := range own {
				taken[kind] = true
			}
		}
	}
	top, _ := t.handled(pool, highest)
	for _, kind := range slices.Sorted(maps.Keys(top.Kinds)) {
		if ledger.ByWorkers(top.Kinds[kind]) {
			byWorkers = append(byWorkers, kind)
		}
	}
	runnable = slices.DeleteFunc(append([]string{}, kinds...), func(kind string) bool { return slices.Contains(byWorkers, kind) && !taken[kind] })
	return byWorkers, runnable
}

// runnable refuses a task that nobody can run.
func (t *tx) runnable(index int, n jobs.NewTask) error {
	governing, all := t.governing(n.Pool)
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
		kinds, any = t.governing(p.Name)
	}
	if any {
		return
	}
	p.Kinds = kinds
	if live && p.Hash != "" {
		p.ByWorkers, p.Kinds = t.byWorkers(p.Name, kinds)
		kinds = p.Kinds
	}
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
