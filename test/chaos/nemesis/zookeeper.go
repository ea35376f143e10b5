package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// ensembles break ZooKeeper, or end sessions at it.
func ensembles() []Nemesis {
	return []Nemesis{
		{Name: "zk-leader-killed", subject: lock, Kinds: lockDown, Hold: 10 * time.Second, Fits: onZooKeeper, Strike: killServers(1)},
		{Name: "zk-quorum-killed", subject: lock, Kinds: lockDown, Hold: 10 * time.Second, Fits: onZooKeeper, Strike: killServers(2)},
		{Name: "zk-leader-frozen", subject: lock, Kinds: lockDown, Hold: frozenFor, Fits: onZooKeeper, Strike: func(_ context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
			return freezeServer("the leader", a.ZooKeeper.Leader())
		}},
		{Name: "zk-session-expired", subject: lockEdge, Kinds: lockDown, Hold: 3 * arena.LockTTL, Fits: onZooKeeper, Strike: expireSession},
		{Name: "zk-session-closed", subject: lock, Kinds: lockDown, Hold: 8 * time.Second, Fits: onZooKeeper, Strike: closeSession},
	}
}

// killServers kills the leader, and more until there are n.
func killServers(n int) func(context.Context, *arena.Arena, *rand.Rand) (Struck, error) {
	return func(_ context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		victims := []*servers.ZooKeeperServer{a.ZooKeeper.Leader()}
		for _, i := range r.Perm(len(a.ZooKeeper.Servers)) {
			if s := a.ZooKeeper.Servers[i]; len(victims) < n && s != victims[0] {
				victims = append(victims, s)
			}
		}
		var pids []int
		for _, s := range victims {
			pids = append(pids, s.PID())
			s.Kill()
		}
		return Struck{Heal: func(context.Context) (bool, string, error) {
			gone := !slices.ContainsFunc(pids, func(pid int) bool { return state(pid) != "" })
			a.ZooKeeper.Start(victims...)
			return gone, fmt.Sprintf("processes %v are gone; %s leads", pids, a.ZooKeeper.Leader().Addr), nil
		}}, nil
	}
}

// expireSession cuts a replica off for longer than its session lasts, and shows that it has ended.
func expireSession(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, err := pick(a, r)
	if err != nil {
		return Struck{}, err
	}
	before, err := sessions(ctx, a)
	if err != nil {
		return Struck{}, err
	}
	setAll(victim.LockEdges, proxy.BlackHole)
	return Struck{Replicas: ids(victim), Heal: func(ctx context.Context) (bool, string, error) {
		after, err := sessions(ctx, a)
		setAll(victim.LockEdges, proxy.Fault{})
		gone := slices.DeleteFunc(before, func(id string) bool { return slices.Contains(after, id) })
		return len(gone) > 0, fmt.Sprintf("sessions %v have expired", gone), err
	}}, nil
}

// closeSession closes a replica's session in its name, as somebody does who mistook it for a dead one.
func closeSession(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	all, err := sessions(ctx, a)
	if err != nil {
		return Struck{}, err
	}
	if len(all) == 0 {
		return Struck{}, errors.New("nobody has a session")
	}
	id := all[r.IntN(len(all))]
	if err := closeZooKeeperSession(ctx, a.ZooKeeper.Leader().Addr, id); err != nil {
		return Struck{}, err
	}
	gone := false
	for end := time.Now().Add(2 * time.Second); !gone && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left, err := sessions(ctx, a)
		gone = err == nil && !slices.Contains(left, id)
	}
	return done(gone, fmt.Sprintf("session %s is closed", id)), nil
}

// sessions are those of replicas: they hold many locks. The leader knows who has made which nodes.
func sessions(ctx context.Context, a *arena.Arena) (ids []string, err error) {
	text, err := fourLetters(ctx, a.ZooKeeper.Leader().Addr, "dump")
	if err != nil {
		return nil, err
	}
	const several = 3
	session, locks := "", 0
	for line := range strings.Lines(text + "end") {
		if strings.HasPrefix(line, "\t") {
			if strings.Contains(line, "sys%2Fstripe%2F") {
				locks++
			}
			continue
		}
		if locks >= several {
			ids = append(ids, session)
		}
		session, locks = strings.TrimSuffix(strings.TrimSpace(line), ":"), 0
	}
	slices.Sort(ids)
	return ids, nil
}
