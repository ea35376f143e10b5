package ledger

import (
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/process"
)

var (
	// ErrSessionDead: the session was declared dead by a peer, or its row is gone. Nothing may be
	// started or written under it; the replica joins again.
	ErrSessionDead = errors.New("session expired")
	// ErrReplicaLive: another live session carries the same replica id.
	ErrReplicaLive = errors.New("replica id is in use")
	// ErrLockService: a live replica uses another lock service, so the two could not exclude each other.
	ErrLockService = errors.New("different lock services on one store")
	// ErrOutdated: a live replica with a newer configuration defines this job or pool differently.
	ErrOutdated = errors.New("a newer configuration governs this")
	// ErrRenumbered: the session has another configuration number than its replica takes it to have; it loads again.
	ErrRenumbered = errors.New("the session has another configuration number")
	// ErrClock: the database's clock and the replica's disagree by more than max_clock_skew.
	ErrClock = errors.New("clocks disagree")
)

// Member is what a replica registers when it joins, or what it registers for a worker in another process.
type Member struct {
	Replica     string // id; unique among live sessions
	Host        string
	PID         int
	PIDStart    int64  // start time of the process in clock ticks since boot; 0 = unknown
	BootID      string // of the kernel, and of its container; "" = unknown
	Version     string
	Address     string // of its API; may be empty
	Workers     int
	Labels      map[string]string
	LockService string        // fingerprint; all live replicas must agree
	TTL         time.Duration // a session ttl without a beat, and it may be declared dead
	Config      int64         // number of the configuration that it loaded last; 0 = none yet
	ConfigHash  string        // of that configuration's content, see Definitions.Content; empty: an older program
	ConfigAt    time.Time     // when its file was written, for people; zero: unknown

	// Of a worker, which takes tasks over HTTP, has no lock service and loads no configuration:
	Pool  string   // that it takes tasks of; empty: it is a replica
	Kinds []string // of these tasks, at least one; "" is for those without a kind
	Owner string   // the name of the token that opened its session; empty without access control
}

// Peer is a session as others see it.
type Peer struct {
	Member
	Session  string
	Beat     int64
	Dead     bool
	Draining bool
	Differs  string    // what the governing configuration has otherwise, for people; empty: nothing, or unknown
	JoinedAt time.Time // database time
	SeenAt   time.Time // database time of the last beat, for people only: no clock decides which sessions live
}

// IsWorker reports whether the session is that of a worker, and not of a replica.
func (m Member) IsWorker() bool { return m.Pool != "" }

// Replicas are the peers that are replicas, and workers the number of the others that are live.
func Replicas(peers []Peer) (replicas []Peer, workers int) {
	for _, p := range peers {
		switch {
		case !p.IsWorker():
			replicas = append(replicas, p)
		case !p.Dead:
			workers++
		}
	}
	return replicas, workers
}

// Gone reports whether the process of the session is known to have ended. host is this one: containers share a boot, but
// not their process ids.
func (p Peer) Gone(host string) bool {
	return p.Host == host && (process.ID{Boot: p.BootID, PID: p.PID, Start: p.PIDStart}).Gone()
}

// WorkerStatus is the session of a worker, with its running tasks.
type WorkerStatus struct {
	Peer
	Running int
	Task    string // the id of the one that was enqueued first; empty: none runs
}

// Worker is the session of a worker as the API shows it.
func (p WorkerStatus) Worker() wire.Worker {
	v := wire.Worker{
		ID: p.Replica, State: "live", Pool: p.Pool, Kinds: p.Kinds, Token: p.Owner, Running: p.Running, TaskID: p.Task, TTL: p.TTL.String(), JoinedAt: p.JoinedAt, SeenAt: p.SeenAt,
	}
	if p.Dead {
		v.State = "dead"
	}
	return v
}

// View is the session as the API shows it.
func (p Peer) View() wire.Replica {
	state := "live"
	switch {
	case p.Dead:
		state = "dead"
	case p.Draining:
		state = "draining"
	}
	return wire.Replica{
		ID:         p.Replica,
		State:      state,
		Host:       p.Host,
		PID:        p.PID,
		Version:    p.Version,
		Address:    p.Address,
		Workers:    p.Workers,
		Labels:     p.Labels,
		Config:     p.Config,
		ConfigHash: p.ConfigHash,
		ConfigTime: p.ConfigAt,
		Differs:    p.Differs,
		JoinedAt:   p.JoinedAt,
		SeenAt:     p.SeenAt,
	}
}

// Views are sessions of replicas as the API shows them.
func Views(replicas []Peer) []wire.Replica {
	highest := int64(0)
	for _, p := range replicas {
		if !p.Dead {
			highest = max(highest, p.Config)
		}
	}
	views := make([]wire.Replica, len(replicas))
	for i, p := range replicas {
		views[i] = p.View()
		views[i].Governs = !p.Dead && p.Config > 0 && p.Config == highest
	}
	return views
}
