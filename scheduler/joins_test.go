package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// entering is a store that notes which replicas join.
type entering struct {
	*replicatest.Picky
	member ledger.Member
}

func (e *entering) Join(_ context.Context, m ledger.Member) (string, error) {
	e.member = m
	return "session", nil
}

func (*entering) Beat(context.Context, string) (time.Time, error) { return time.Now(), nil }

// A replica reports of itself what its peers need to expire it.
func TestWhatAReplicaJoinsWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &entering{Picky: replicatest.NewPicky(nil)}
		o := Options{ID: "a", SessionTTL: 7 * time.Second, Workers: 5, Labels: map[string]string{"zone": "b"}, LockService: "redis", Version: "1", Address: "here:1"}
		s, err := newOn(st, noLocks{}, jobs.Set{}, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.members.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := st.member
		if m.Host == "" || m.PID == 0 {
			t.Errorf("it is process %d of host %q", m.PID, m.Host)
		}
		m.Host, m.PID, m.PIDStart, m.BootID = "", 0, 0, ""
		want := ledger.Member{Replica: "a", TTL: o.SessionTTL, Workers: 5, Labels: o.Labels, LockService: Fingerprint("redis"), Version: "1", Address: "here:1"}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
