package scheduler

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

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
