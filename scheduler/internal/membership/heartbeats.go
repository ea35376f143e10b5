package membership

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// heartbeats are those of other sessions, as this replica read them.
//
//	read first ──▶ unchanged since then ──▶ for the session's ttl: its reader expires the session
//	     ▲                  │
//	     └──────────────────┘ it has changed, or was not read for a while
type heartbeats map[string]heartbeat

type heartbeat struct {
	beat  int64
	since boottime.Instant // first read
	last  boottime.Instant // last read
}

// note takes what was read of a peer, and returns for how long its heartbeat was seen unchanged, and whether the heartbeat
// changed since the last call. Where more than gap lies between two calls that time starts again: perhaps the peer could
// not reach the store either.
func (all heartbeats) note(p ledger.Peer, gap time.Duration) (silent time.Duration, beaten bool) {
	now := boottime.Now()
	was, known := all[p.Session]
	if !known || was.beat != p.Beat || was.last.Elapsed() > gap {
		all[p.Session] = heartbeat{p.Beat, now, now}
		return 0, known && was.beat != p.Beat
	}
	was.last = now
	all[p.Session] = was
	return was.since.Elapsed(), false
}

// forget drops the heartbeats of sessions that are not among peers.
func (all heartbeats) forget(peers []ledger.Peer) {
	present := map[string]bool{}
	for _, p := range peers {
		present[p.Session] = true
	}
	for id := range all {
		if !present[id] {
			delete(all, id)
		}
	}
}
