package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// AddPools makes pools known before a replica has loaded them, and the default pool with them. A program that enqueues, and runs
// no replica or has just started one, need not wait for a replica. Handlers are not needed and not kept: Kinds may name kinds
// with nil handlers. A pool with kinds takes tasks of these kinds alone, and with a Handler those without a kind. A pool with
// neither takes any, until a replica has loaded it. What a replica has loaded stays as it is. A retired pool comes back, until
// the replica that governs reads the pools again and does not have it either.
//
// Errors: jobs.ErrInvalid with all problems of the pools, and for a new pool with a name that differs from a known one only in
// capitals; jobs.ErrUnavailable.
func (s *Store) AddPools(ctx context.Context, pools map[string]jobs.Pool) error {
	if err := (jobs.Set{Pools: ledger.Declared(pools)}).Validate(); err != nil {
		return &opError{"add pools", err}
	}
	all := map[string]jobs.Pool{naming.DefaultPool: {}}
	maps.Copy(all, pools)
	names := slices.Sorted(maps.Keys(all))
	var rows [][]any
	for _, name := range names {
		p := all[name].WithDefaults()
		all[name] = p
		k := keysOf(rulesOf(p))
		rows = append(rows, []any{
			name, p.Hash(), 0, p.MaxRunning, rateText(p.Rate), p.Burst, k.MaxRunning, rateText(k.Rate), k.Burst, k.order, weightsText(p.Fair), kindsText(p.PerKind),
			p.Retries.Attempts(), string(p.OnLost), p.LostLimit,
		})
	}
	return s.sure(ctx, "add pools", func(t *tx) error {
		known, err := column[string](t.rows(`SELECT name FROM {pools} WHERE hash <> ''`))
		if err != nil {
			return err
		}
		// A replica may be loading the same pools: its rows must win, so that nothing is replaced here.
		if _, err := t.InsertNew(`{pools} (name, hash, config, max_running, rate, burst, key_max_running, key_rate, key_burst, key_order, key_fair, kind_limits, max_attempts, on_lost, lost_limit)`, rows); err != nil {
			return err
		}
		if err := t.sameButForCapitals(names, known); err != nil {
			return err
		}
		there, err := defined[poolModel](t, names, "{for_update}")
		if err != nil {
			return err
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		for _, name := range names {
			p, row := all[name], there[name]
			if row.Hash != "" && row.Config != 0 {
				continue // a replica has loaded it
			}
			has := row.declare(ledger.DeclaredKinds(p))
			if row.Hash == "" {
				before := row.limits()
				row.MaxRunning, row.Rate, row.Burst = p.MaxRunning, storedRate(p.Rate), p.Burst
				k, keys := keysOf(rulesOf(p)), row.perKey()
				row.setKeys(rulesOf(p))
				if err := t.changeKeys(&row, keys, now); err != nil {
					return err
				}
				// Index: primary key.
				_, err = t.Exec(`UPDATE {pools} SET hash = ?, config = 0, max_running = ?, rate = ?, burst = ?, bucket_full_at = ?,
						key_max_running = ?, key_rate = ?, key_burst = ?, key_order = ?, key_fair = ?, kind_limits = ?, keys_left = ?, keys_moved = ?, max_attempts = ?, on_lost = ?, lost_limit = ?, kinds = ? WHERE name = ? AND hash = ''`,
					p.Hash(), p.MaxRunning, rateText(p.Rate), p.Burst, int64(before.Converted(row.BucketFullAt, now, row.limits())),
					k.MaxRunning, rateText(k.Rate), k.Burst, k.order, weightsText(p.Fair), kindsText(p.PerKind), row.KeysLeft, orNull(row.KeysMoved),
					p.Retries.Attempts(), string(p.OnLost), p.LostLimit, has.declared(), name)
			} else {
				// Index: primary key.
				_, err = t.Exec(`UPDATE {pools} SET kinds = ? WHERE name = ? AND config = 0`, has.declared(), name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func rulesOf(p jobs.Pool) ledger.KeyRules {
	return ledger.KeyRules{PerKey: p.PerKey, PerKind: p.PerKind, Order: p.Order, Fair: p.Fair}
}

// sameButForCapitals refuses names that are not known yet where a pool has them in other capitals. The rows of the new ones
// exist already, and all are locked: of two transactions that add such names at once, at least one is refused.
func (t *tx) sameButForCapitals(names, known []string) error {
	added := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(known, name) })
	if len(added) == 0 {
		return nil
	}
	taken := map[string][]string{}
	err := each(t.rows(`SELECT name, hash FROM {pools}{share}`), func(m *poolModel) {
		if lower := strings.ToLower(m.Name); m.Hash != "" {
			taken[lower] = append(taken[lower], m.Name)
		}
	})
	var problems []error
	for _, name := range added {
		for _, other := range taken[strings.ToLower(name)] {
			if other != name {
				problems = append(problems, &jobs.FieldError{Path: "pools." + name, Problem: fmt.Sprintf("differs from pool %s, which is there already, only in capitals; write %s, or give it another name", other, other)})
			}
		}
	}
	return cmp.Or(err, errors.Join(problems...))
}

// declare adds kinds to those that other programs have declared, unless one side declares no kinds.
func (m poolModel) declare(has kinds) kinds {
	before := m.Kinds.is.names()
	switch {
	case m.Hash == "" || before == nil:
		return has
	case has == nil:
		return before
	}
	return has.and(before)
}

// declared is what {pools} keeps of kinds without handlers.
func (k kinds) declared() []byte {
	var all map[string]string
	if k != nil {
		all = map[string]string{}
	}
	for _, kind := range k {
		all[kind] = ""
	}
	return handled{Kinds: all}.encode()
}
