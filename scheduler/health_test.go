package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A replica that has not joined runs nothing by hand, and says why; one that was told to stop before does not join any more.
func TestAReplicaThatHasNotJoinedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newOn(&memstore.Store{Database: memstore.New()}, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: blocked{}}}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		const want = `run job "j": this replica has not joined the store; Run joins it, and Health says whether it has`
		if _, _, err := s.RunJob(t.Context(), "j", "ann", ""); !errors.Is(err, jobs.ErrUnavailable) || err.Error() != want {
			t.Errorf("before Run: %v, want %s", err, want)
		}
		if said := s.Health()[0].Detail; said != "joining" {
			t.Errorf("before Run it is %q", said)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got := s.Health(); got[0].Ready || got[0].Detail != "not joined, as this replica was told to stop before" || got[4].Ready {
			t.Errorf("after Run it is %+v", got)
		}
	})
}

// Every decision meets a clock that is not believed, some fifty a second; the log says so now and then.
func TestADisbelievedClockFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := replicaOn(t, &memstore.Store{Database: memstore.New()}, blocked{})
		s.health.log = slog.New(slog.NewTextHandler(&log, nil))
		for range 25 * 50 {
			s.storeFailed(fmt.Errorf("decide: %w", ledger.ErrClock))
			time.Sleep(20 * time.Millisecond)
		}
		if n := strings.Count(log.String(), "nothing is decided"); n != 3 {
			t.Errorf("in 25 s it was said %d times", n)
		}
	})
}
