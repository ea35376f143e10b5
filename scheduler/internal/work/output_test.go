package work

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// writer is a handler that writes x so many times.
type writer int

func (n writer) Run(_ context.Context, _ jobs.Task, out io.Writer) error {
	_, err := io.WriteString(out, strings.Repeat("x", int(n)))
	return err
}

func (writer) Describe() string { return "writer" }

// The recorded output of an attempt is as long as the replica's limit allows.
func TestOutputIsCutAtTheLimitOfTheReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewPicky(nil)
		s := replicaOn(t, st, writer(1000))
		s.work.opt.OutputLimit = 100
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		s.work.slots.take("p", 1)
		s.work.start(t.Context(), claimed{task: &jobs.Task{ID: "1", Pool: "p"}, session: "session"})
		synctest.Wait()
		half := strings.Repeat("x", 50)
		all := s.work.recorder.take()
		if want := half + "\n… 900 bytes left out …\n" + half; len(all) != 1 || string(all[0].result.Output) != want {
			t.Errorf("recorded is %+v", all)
		}
	})
}
