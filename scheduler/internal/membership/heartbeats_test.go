package membership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// The silence of a peer is counted from the first look that saw its last heartbeat, and starts again where this
// replica itself has not looked for longer than the gap.
func TestHowLongAPeerWasSilent(t *testing.T) {
	const gap = 4 * time.Second
	type look struct {
		after  time.Duration
		beat   int64
		silent time.Duration
		beaten bool
	}
	for what, looks := range map[string][]look{
		"it beats":                         {{0, 1, 0, false}, {time.Second, 2, 0, true}, {time.Second, 3, 0, true}},
		"it stands still":                  {{0, 7, 0, false}, {gap - 1, 7, gap - 1, false}, {gap - 1, 7, 2 * (gap - 1), false}, {1, 7, 2*gap - 1, false}},
		"it has never beaten":              {{0, 0, 0, false}, {gap - 1, 0, gap - 1, false}, {1, 0, gap, false}},
		"it stands still, and beats again": {{0, 1, 0, false}, {gap - 1, 1, gap - 1, false}, {time.Second, 2, 0, true}, {time.Second, 2, time.Second, false}},
		"no look for a while":              {{0, 1, 0, false}, {time.Second, 1, time.Second, false}, {gap + 1, 1, 0, false}, {time.Second, 1, time.Second, false}},
		"no look, and it has beaten":       {{0, 1, 0, false}, {gap + 1, 2, 0, true}, {time.Second, 2, time.Second, false}},
		"no look for as long as may be":    {{0, 1, 0, false}, {gap - time.Second, 1, gap - time.Second, false}, {gap, 1, 2*gap - time.Second, false}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := heartbeats{}
				for n, l := range looks {
					time.Sleep(l.after)
					silent, beaten := all.note(ledger.Peer{Session: "other", Beat: l.beat}, gap)
					if silent != l.silent || beaten != l.beaten {
						t.Errorf("look %d: silent for %v, has beaten: %t; want %v, %t", n, silent, beaten, l.silent, l.beaten)
					}
				}
			})
		})
	}
}

// A session that is not listed any more is forgotten; the others are not.
func TestHeartbeatsOfSessionsThatLeftAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := heartbeats{}
		stays, leaves := ledger.Peer{Session: "stays", Beat: 1}, ledger.Peer{Session: "leaves", Beat: 1}
		all.note(stays, time.Minute)
		all.note(leaves, time.Minute)
		all.forget([]ledger.Peer{stays})
		time.Sleep(time.Second)
		if silent, _ := all.note(stays, time.Minute); silent != time.Second {
			t.Errorf("what is still listed was silent for %v", silent)
		}
		if silent, beaten := all.note(leaves, time.Minute); silent != 0 || beaten {
			t.Errorf("what was not listed was silent for %v, has beaten: %t", silent, beaten)
		}
	})
}
