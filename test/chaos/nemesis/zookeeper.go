//go:build linux

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// ensembles break ZooKeeper, or end sessions at it.
func ensembles() []Nemesis {
	return []Nemesis{
		{Name: "zk-leader-killed", subject: lock, Kinds: lockDown, Hold: 10 * time.Second, Fits: onZooKeeper, Strike: killServers(1)},
		{Name: "zk-quorum-killed", subject: lock, Kinds: lockDown, Hold: 10 * time.Second, Fits: onZooKeeper, Strike: killServers(2)},
		{Name: "zk-leader-frozen", subject: lock, Kinds: lockDown, Hold: frozenFor, Fits: onZooKeeper, Strike: func(ctx context.Context, a *arena.Arena, _ *rand.Rand) (Struck, error) {
			leader, err := a.ZooKeeper.AwaitLeader(ctx)
			if err != nil {
				return Struck{}, err
			}
			return freezeServer("the leader", leader)
		}},
		{Name: "zk-session-expired", subject: lockEdge, Kinds: lockDown, Hold: 3 * arena.LockTTL, Fits: onZooKeeper, Strike: expireSession},
		{Name: "zk-session-closed", subject: lock, Kinds: lockDown, Hold: 8 * time.Second, Fits: onZooKeeper, Strike: closeSession},
	}
}

// killServers kills the leader, and more until there are n.
func killServers(n int) strike {
	return func(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
		leader, err := a.ZooKeeper.AwaitLeader(ctx)
		if err != nil {
			return Struck{}, err
		}
		victims := []*servers.ZooKeeperServer{leader}
		for _, i := range r.Perm(len(a.ZooKeeper.Servers)) {
			if s := a.ZooKeeper.Servers[i]; len(victims) < n && s != leader {
				victims = append(victims, s)
			}
		}
		var pids []int
		for _, s := range victims {
			pids = append(pids, s.PID())
			s.Kill()
		}
		return Struck{Heal: func(ctx context.Context) (bool, string, error) {
			gone := !slices.ContainsFunc(pids, func(pid int) bool { return state(pid) != "" })
			ctx = context.WithoutCancel(ctx) // they are started in any case
			if err := a.ZooKeeper.Restart(ctx, victims...); err != nil {
				return gone, fmt.Sprintf("processes %v are gone", pids), err
			}
			leader, err := a.ZooKeeper.AwaitLeader(ctx)
			if err != nil {
				return gone, fmt.Sprintf("processes %v are gone", pids), err
			}
			return gone, fmt.Sprintf("processes %v are gone; %s leads", pids, leader.Addr), nil
		}}, nil
	}
}

// expireSession disconnects a replica for longer than its session lasts, and shows that it has ended.
func expireSession(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, id, err := holder(ctx, a, r)
	if err != nil {
		return Struck{}, err
	}
	setAll(victim.LockEdges, proxy.BlackHole)
	return Struck{Replicas: ids(victim), Heal: func(ctx context.Context) (bool, string, error) {
		left, err := sessions(ctx, a)
		setAll(victim.LockEdges, proxy.Fault{})
		gone := err == nil && left[id] == nil
		return gone, fmt.Sprintf("session %s of %s has expired: %t", id, victim.ID, gone), err
	}}, nil
}

// closeSession closes the session of a replica with its id, as an operator may by mistake.
func closeSession(ctx context.Context, a *arena.Arena, r *rand.Rand) (Struck, error) {
	victim, id, err := holder(ctx, a, r)
	if err != nil {
		return Struck{}, err
	}
	leader, err := a.ZooKeeper.AwaitLeader(ctx)
	if err != nil {
		return Struck{}, err
	}
	if err := closeZooKeeperSession(ctx, leader.Addr, id); err != nil {
		return Struck{}, err
	}
	gone := poll(ctx, 5*time.Second, often, func() bool {
		left, err := sessions(ctx, a)
		return err == nil && left[id] == nil
	})
	struck := done(gone, fmt.Sprintf("session %s of %s is closed: %t", id, victim.ID, gone))
	struck.Replicas = ids(victim)
	return struck, nil
}

// holder waits for a replica that has a session with locks, and names both.
func holder(ctx context.Context, a *arena.Arena, r *rand.Rand) (victim *arena.Replica, session string, err error) {
	found := poll(ctx, 0, seldom, func() bool {
		var all map[string]*arena.Replica
		if all, err = sessions(ctx, a); err != nil {
			return true
		}
		for _, i := range r.Perm(len(a.Replicas)) {
			for id, replica := range all {
				if replica == a.Replicas[i] {
					victim, session = replica, id
					return true
				}
			}
		}
		return false
	})
	if !found {
		err = fmt.Errorf("no replica holds a lock: %w", ctx.Err())
	}
	return victim, session, err
}

// sessions are those that hold stripes, with their replicas: the leader knows which session made a node, and
// the node has the replica.
func sessions(ctx context.Context, a *arena.Arena) (map[string]*arena.Replica, error) {
	leader, err := a.ZooKeeper.AwaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	text, err := fourLetters(ctx, leader.Addr, "dump")
	if err != nil {
		return nil, err
	}
	conn, _, err := zk.Connect(a.ZooKeeper.Addrs(), 5*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all := map[string]*arena.Replica{}
	session := ""
	for line := range strings.Lines(text) {
		path, below := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t")
		switch {
		case !below:
			session = strings.TrimSuffix(path, ":")
		case all[session] == nil && strings.Contains(path, "/sys%2Fstripe%2F"):
			data, _, err := conn.Get(path)
			if errors.Is(err, zk.ErrNoNode) {
				continue
			}
			if err != nil {
				return nil, err
			}
			lines := append(strings.Split(string(data), "\n"), "", "", "") // id, owner, meta, ttl
			owner, _ := scheduler.StripeHolder(lines[2])
			if replica := a.Replica(owner); replica != nil {
				all[session] = replica
			}
		}
	}
	return all, nil
}
