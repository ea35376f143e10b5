//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

var (
	frozen     = []history.Kind{history.ReplicaFrozen}
	bothFrozen = []history.Kind{history.ReplicaFrozen, history.HelperFrozen}
)

// freezes stop replicas, long enough for their sessions to expire, and continue them.
func freezes() []Nemesis {
	return []Nemesis{
		{Name: "sigstop-parent", subject: replica, Kinds: frozen, Hold: frozenFor, Strike: freezeParent},
		{Name: "sigstop-group", subject: replica, Kinds: bothFrozen, Hold: frozenFor, Strike: freezeGroup},
		{Name: "sigstop-in-transaction", subject: replica, waits: true, Kinds: frozen, Hold: frozenFor, Strike: freezeInTransaction},
		{Name: "sigstop-in-lock-transaction", subject: replica, waits: true, Kinds: frozen, Hold: frozenFor, Fits: onLease, Strike: freezeTaking},
		{Name: "sigstop-after-lock", subject: replica, waits: true, Kinds: frozen, Hold: frozenFor, Fits: overNetwork, Strike: freezeAfterLock},
	}
}

func freezeParent(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	pid := victim.PID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return Struck{}, err
	}
	return holding(ctx, a, thaw(victim, "", pid), pid), nil
}

func freezeGroup(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	pids := victim.Group()
	for _, pid := range pids { // the replica first: it starts its helper again
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGSTOP))
	}
	if err != nil {
		return Struck{}, errors.Join(err, goOn(pids...))
	}
	return holding(ctx, a, thaw(victim, "", pids...), victim.PID()), nil
}

// thaw is the strike of stopped processes of a replica.
func thaw(victim *arena.Replica, where string, pids ...int) Struck {
	return Struck{Replicas: ids(victim), Heal: func(context.Context) (bool, string, error) {
		applied := stopped(pids...)
		return applied, fmt.Sprintf("processes %v of %s stood still (state T): %t%s", pids, victim.ID, applied, where), goOn(pids...)
	}}
}

// holding notes it if the process was stopped with the write lock of the SQLite file, which may happen in any
// freeze.
func holding(ctx context.Context, a *arena.Arena, s Struck, pid int) Struck {
	if a.Store == nil && poll(ctx, time.Second, often, func() bool { return stopped(pid) }) && writing(pid, a.SQLite) {
		s.Kinds = []history.Kind{history.StoreHeld}
	}
	return s
}

func goOn(pids ...int) (err error) {
	for _, pid := range pids {
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
	}
	return err
}

// freezeInTransaction stops a replica that has rows locked, or SQLite's file.
func freezeInTransaction(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	pid := victim.PID()
	if a.Store == nil {
		return freezeWriter(ctx, a, victim, pid)
	}
	return freezeWithin(ctx, victim, pid, victim.StoreEdges[0])
}

// freezeTaking stops a replica that is acquiring a key, with the row of the tokens locked.
func freezeTaking(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	return freezeWithin(ctx, victim, victim.PID(), victim.LockEdges[0])
}

// freezeWithin stops a replica as soon as its transaction has locked a row behind an edge.
func freezeWithin(ctx context.Context, victim *arena.Replica, pid int, edge *proxy.Proxy) (Struck, error) {
	defer edge.Judge(nil)
	snare := newTrap(pid)
	var began sync.Map // connections within a transaction
	edge.Judge(func(c proxy.Command) proxy.Verdict {
		switch {
		case c.Is("START TRANSACTION"), c.Is("BEGIN"):
			began.Store(c.Conn, true)
		case c.Is("COMMIT"), c.Is("ROLLBACK"):
			began.Delete(c.Conn)
		default:
			if _, within := began.Load(c.Conn); within && takesLocks(c.Query) {
				snare.spring(c.Query) // it has sent this, and gets no answer
			}
		}
		return proxy.Pass
	})
	query, err := snare.wait(ctx, chance, fmt.Errorf("%s changed nothing within a transaction", victim.ID))
	if err != nil {
		return Struck{}, err
	}
	text := strings.Join(strings.Fields(query), " ")
	return thaw(victim, fmt.Sprintf(", within a transaction, at %.60q", text), pid), nil
}

func takesLocks(query string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	return strings.EqualFold(word, "UPDATE") || strings.EqualFold(word, "INSERT") || strings.EqualFold(word, "DELETE") ||
		strings.HasSuffix(strings.TrimSpace(query), "FOR UPDATE")
}

// freezeWriter stops the replica, and continues it at once unless it was writing.
func freezeWriter(ctx context.Context, a *arena.Arena, victim *arena.Replica, pid int) (Struck, error) {
	caught := poll(ctx, chance, often, func() bool {
		if !writing(pid, a.SQLite) || syscall.Kill(pid, syscall.SIGSTOP) != nil {
			return false
		}
		stands := poll(ctx, time.Second, often, func() bool { return stopped(pid) })
		if stands && writing(pid, a.SQLite) {
			return true
		}
		_ = goOn(pid) // it is gone if this fails, which the next try sees
		return false
	})
	if !caught {
		return Struck{}, fmt.Errorf("%s was never seen to write", victim.ID)
	}
	return holding(ctx, a, thaw(victim, ", with SQLite's write lock", pid), pid), nil
}

// justTaken is the longest time between the grant of a lock and the freeze.
const justTaken = 250 * time.Millisecond

// freezeAfterLock stops a replica that has just acquired a pool's lock, when the lock service answers it. An
// answer may belong to any request, so another replica is asked for the holder: unless it is the victim, the
// victim is continued.
func freezeAfterLock(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	witness, err := pickBeside(a, victim)
	if err != nil {
		return Struck{}, err
	}
	pid := victim.PID()
	defer tapAll(victim.LockEdges, nil)
	for deadline, again := time.Now().Add(chance), false; ; again = true {
		snare := newTrap(pid)
		springOnAnswers(victim.LockEdges, snare)
		if again {
			if err := goOn(pid); err != nil {
				return Struck{}, err
			}
		}
		key, err := snare.wait(ctx, time.Until(deadline), fmt.Errorf("%s was never seen to have just taken a pool's lock", victim.ID))
		if err != nil {
			return Struck{}, err
		}
		at := time.Now()
		poll(ctx, time.Second, often, func() bool { return stopped(pid) })
		lock, held, err := witness.Holder(ctx, key)
		if err != nil {
			return Struck{}, errors.Join(err, goOn(pid))
		}
		if age := at.Sub(lock.Since); held && lock.Meta == victim.ID && age < justTaken {
			where := fmt.Sprintf(", with %s since %v, token %d, as %s says", key, age.Round(time.Millisecond), lock.Token, witness.ID)
			return holding(ctx, a, thaw(victim, where, pid), pid), nil
		}
	}
}

// springOnAnswers lets the trap stop the process at the first answer behind a request for a pool's lock.
func springOnAnswers(edges []*proxy.Proxy, snare *trap) {
	for _, edge := range edges {
		var asking sync.Map // connections on which it has asked
		edge.Tap(func(conn int, up bool, bytes []byte) {
			if up {
				if key := poolKey(bytes); key != "" {
					asking.Store(conn, key)
				}
				return
			}
			if key, asked := asking.LoadAndDelete(conn); asked {
				snare.spring(key.(string))
			}
		})
	}
}

func tapAll(edges []*proxy.Proxy, f func(int, bool, []byte)) {
	for _, edge := range edges {
		edge.Tap(f)
	}
}

// poolKey is the lock of a pool that a request names; ZooKeeper's paths have no slash within a name.
func poolKey(request []byte) string {
	for _, before := range []string{"sys/pool/", "sys%2Fpool%2F"} {
		_, rest, found := strings.Cut(string(request), before)
		if !found {
			continue
		}
		end := strings.IndexFunc(rest, func(c rune) bool {
			return (c < 'a' || c > 'z') && c != '-'
		})
		if end < 0 {
			end = len(rest)
		}
		return "sys/pool/" + rest[:end]
	}
	return ""
}
