package scheduler

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// pulses are the beats of other sessions, as this replica saw them.
type pulses map[string]pulse

type pulse struct {
	beat  int64
	since boottime.Instant // seen for the first time
	last  boottime.Instant // seen again
}

// feel looks at a peer, and returns for how long its beat was seen unchanged, and whether it has beaten
// since the look before. After a gap in the own sight of more than gap that time begins anew: the peer
// could perhaps not beat either.
func (all pulses) feel(p ledger.Peer, gap time.Duration) (silent time.Duration, beaten bool) {
	now := boottime.Now()
	was, known := all[p.Session]
	if !known || was.beat != p.Beat || was.last.Elapsed() > gap {
		all[p.Session] = pulse{p.Beat, now, now}
		return 0, known && was.beat != p.Beat
	}
	was.last = now
	all[p.Session] = was
	return was.since.Elapsed(), false
}

// forget drops those that are not among peers.
func (all pulses) forget(peers []ledger.Peer) {
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
