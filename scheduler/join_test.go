package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// refusing is a store that no replica can join, or where no heartbeat is taken.
type refusing struct {
	*replicatest.Picky
	join error
}

func (r refusing) Join(context.Context, ledger.Member) (string, error) { return "session", r.join }

func (refusing) Beat(context.Context, string) (time.Time, error) {
	return time.Time{}, errors.New("store: heartbeat: access denied")
}

// The error of a replica names each call once.
func TestWhatAFailedJoinSays(t *testing.T) {
	for want, join := range map[string]error{
		"store: join: access denied":                       errors.New("store: join: access denied"),
		"first heartbeat: store: heartbeat: access denied": nil,
	} {
		err := replicaOn(t, refusing{replicatest.NewPicky(nil), join}, replicatest.Blocked{}).Run(t.Context())
		if err == nil || err.Error() != want {
			t.Errorf("it ended with %v, want %s", err, want)
		}
	}
}
