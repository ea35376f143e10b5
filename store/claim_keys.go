package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// withKeyed adds to candidates the tasks that wait for keys which may be free. All are in the order of claims.
func (w *claim) withKeyed(t *tx, keys *poolKeys, candidates []openTask, room int) ([]openTask, error) {
	if keys == nil {
		return candidates, nil
	}
	waiting, err := keys.waiting(t, w.Pool, w.Scope, room)
	if err != nil {
		return nil, err
	}
	if keys.fair != nil {
		keys.fair.counts = w.beyond || len(keys.looked) > 0 || len(candidates) > room
	}
	if len(waiting) > 0 {
		candidates = append(candidates, waiting...)
		slices.SortFunc(candidates, func(a, b openTask) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt), lockOrder(a, b))
		})
	}
	if err := keys.lockWritten(t, w.Pool, candidates); err != nil {
		return nil, err
	}
	if keys.fair != nil && keys.fair.counts {
		return keys.inTurn(candidates), nil
	}
	return candidates, nil
}

// waits reports whether a candidate is to wait for its key: its key does not let it start, or it is the turn of other keys, and there is no
// room for more.
func (w *claim) waits(r *openTask) bool {
	p := w.admission.pools[w.Pool]
	return !p.keys.lets(r) || p.room < 1 && !p.keys.ignores(r) && p.keys.fair != nil && p.keys.fair.counts
}

// waitForKeys makes candidates wait for their keys, and has those wait no more that were claimed. Those that another transaction has
// changed meanwhile are left as they are.
//
// Index: primary keys of tasks and key_waits.
func (w *claim) waitForKeys(t *tx, keys *poolKeys) error {
	if keys == nil {
		return nil
	}
	got := map[string]bool{}
	for i := range w.out.Tasks {
		got[w.out.Tasks[i].ID] = true
	}
	var left []*keyWaitModel
	for _, m := range w.rows {
		if got[m.id()] && m.was.row == rowKeyed {
			left = append(left, m.was.place)
		}
	}
	if len(w.behind) > 0 {
		behind, err := t.waitForKeys(keys, w.behind)
		if err != nil {
			return err
		}
		w.behind, w.out.Behind = behind, len(behind)
		for _, r := range w.behind {
			if r.row == rowKeyed { // from its kind to its key, or back
				left = append(left, r.place)
			}
		}
	}
	if err := t.leavePlaces(left); err != nil {
		return err
	}
	joining := mapped(w.behind, func(r *openTask) openTask { return *r })
	for _, m := range w.rows {
		if slices.Contains(keys.new, m.id()) && got[m.id()] { // else it was cancelled meanwhile
			joining = append(joining, *m.was)
			joining[len(joining)-1].on = m.was.Key
		}
	}
	if err := t.joinKeys(keys.ordered, joining); err != nil {
		return err
	}
	return keys.forgetLeft(t, w.Pool)
}

// reason is why a task waits for a key, for people, and its code.
func (k *poolKeys) reason(key string) (string, reason.Code) {
	if kind, is := strings.CutPrefix(key, ofKind); is {
		r := k.rows[key]
		if r.places() < 1 {
			return fmt.Sprintf("as many tasks of kind %s run as may at once: %d", kind, r.limits.MaxRunning), reason.WaitsForKind
		}
		return fmt.Sprintf("the rate for tasks of kind %s, %s, lets no more start now", kind, r.limits.Rate), reason.WaitsForKind
	}
	return k.reasonOfKey(key), reason.WaitsForKey
}

func (k *poolKeys) reasonOfKey(key string) string {
	switch r := k.rows[key]; {
	case k.fair != nil && k.room(r) > 0 && (!k.ordered || key == "" || r.first == ""):
		return "it is the turn of other keys, which share the pool"
	case k.ordered && r.first != "" && key != "":
		return fmt.Sprintf("behind task %s of the same key", r.first)
	case r.places() < 1:
		return fmt.Sprintf("as many tasks with this key run as may at once: %d", r.limits.MaxRunning)
	default:
		return fmt.Sprintf("the rate for tasks with this key, %s, lets no more start now", r.limits.Rate)
	}
}

// more reports whether there may be more tasks that wait for keys which are free than a claim reads.
func (k *poolKeys) more() bool {
	return k != nil && slices.ContainsFunc(k.looked, func(key string) bool { r := k.rows[key]; return r.rest && k.room(r) > 0 }) || k != nil && k.beyond
}

// chooseFree reads the tasks of Claim.Waiting whose keys let them start; the others wait for their locks no more.
//
// Index: primary key of tasks.
func (w *claim) chooseFree(t *tx, keys *poolKeys) ([]openTask, error) {
	candidates, err := keys.candidates(t, nil, "", " WHERE {in name id} AND t.state+0=3 AND t.pool=? ORDER BY t.rank_order, t.run_at, t.id", sqlkit.Keys(w.Waiting), w.Pool)
	if err == nil {
		err = keys.lockWritten(t, w.Pool, candidates)
	}
	if err != nil {
		return nil, err
	}
	free := func(r openTask) bool { return keys.lets(&r) && !keys.shut(&r) }
	held := those(candidates, func(r openTask) bool { return !free(r) })
	if len(held) == 0 {
		return candidates, nil
	}
	if err := t.waitNoMore(mapped(held, openTask.id)); err != nil {
		return nil, err
	}
	return those(candidates, free), nil
}
