package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// recording is a replica whose recorder has got n results of tasks called 0 to n-1, and runs.
func recording(t *testing.T, st *replicatest.Picky, n int) *replica {
	t.Helper()
	s := replicaOn(t, st, replicatest.Blocked{})
	s.assume(nil) // before the recorder runs: a test may give it a session
	for i := range n {
		task := jobs.Task{ID: fmt.Sprint(i), Pool: "p"}
		s.work.recorder.add("session", &task, ledger.Result{TaskID: task.ID, Verdict: ledger.Ended, State: jobs.StateSucceeded, Output: []byte("out")})
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.work.recorder.run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return s
}

// underWhich is a store that notes the session of each result.
type underWhich struct {
	*replicatest.Picky
	under []string
}

func (n *underWhich) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	for _, r := range results {
		session += " " + r.TaskID
		if r.Task == nil || r.Task.ID != r.TaskID { // else the store reads it
			session += " without its task"
		}
	}
	n.under = append(n.under, session)
	return n.Picky.Finish(ctx, session, results)
}

// A result is recorded under the session that its attempt was claimed under, whatever session the replica has by then.
func TestAResultIsRecordedUnderItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &underWhich{Picky: replicatest.NewPicky(nil)}
		s := replicaOn(t, st, replicatest.Blocked{})
		s.assume(&membership.Session{ID: "next", Trust: boottime.Now().Add(time.Hour)})
		for i, session := range []string{"before", "before", "next"} {
			task := jobs.Task{ID: fmt.Sprint(i), Pool: "p"}
			s.work.recorder.add(session, &task, ledger.Result{TaskID: task.ID, Verdict: ledger.Ended, State: jobs.StateSucceeded})
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.work.recorder.run(ctx) }()
		synctest.Wait()
		stop()
		<-ended
		if want := []string{"before 0 1", "next 2"}; !slices.Equal(st.under, want) {
			t.Errorf("recorded %q, want %q", st.under, want)
		}
	})
}

func settledNow(s *replica) bool {
	select {
	case <-s.work.register.allRecorded():
		return true
	default:
		return false
	}
}

func TestAResultThatIsRefusedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2*recordBatch + 10
		st := replicatest.NewPicky(func(r ledger.Result) error {
			if r.TaskID == "200" && len(r.Output) > 0 {
				return replicatest.ErrRefused
			}
			return nil
		})
		s := recording(t, st, n)
		synctest.Wait() // no time passes
		_, taken := st.Seen()
		if len(taken) != n || !settledNow(s) {
			t.Fatalf("%d of %d are recorded", len(taken), n)
		}
		for id, r := range taken {
			if r.State != jobs.StateSucceeded || (id == "200") != (len(r.Output) == 0) {
				t.Fatalf("task %s is recorded as %s with the output %q", id, r.State, r.Output)
			}
		}
		if got := taken["200"].Reason; !strings.Contains(got, "Data too long") {
			t.Errorf("the refused one has the reason %q", got)
		}
	})
}

// The result is neither dropped nor changed, since its task would be started a second time.
func TestAResultThatIsRefusedWithoutItsTextsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = recordBatch
		st := replicatest.NewPicky(func(r ledger.Result) error {
			if r.TaskID == "7" || r.TaskID == "8" {
				return replicatest.ErrRefused
			}
			return nil
		})
		s := recording(t, st, n)
		synctest.Wait()
		if _, taken := st.Seen(); len(taken) != n-2 || !s.work.register.holds("7") || settledNow(s) {
			t.Fatalf("%d of %d are recorded, the refused one is still held: %v", len(taken), n-2, s.work.register.holds("7"))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before, _ := st.Seen()
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls, _ := st.Seen(); calls-before < 6 || calls-before > 60 {
			t.Errorf("asked %d times within a minute", calls-before)
		}
		st.Became(nil)
		time.Sleep(recordAgain + time.Second)
		synctest.Wait()
		if _, taken := st.Seen(); len(taken) != n || string(taken["7"].Output) != "out" || !settledNow(s) {
			t.Errorf("once the store takes them, %d of %d are recorded", len(taken), n)
		}
	})
}

// For example, its rights to the tables are taken away for a while.
func TestAStoreThatRefusesEverythingLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2 * recordBatch
		bare := 0
		st := replicatest.NewPicky(func(r ledger.Result) error {
			if len(r.Output) == 0 {
				bare++
			}
			return errors.New("UPDATE command denied")
		})
		s := recording(t, st, n)
		time.Sleep(time.Minute)
		calls, taken := st.Seen()
		if len(taken) > 0 || calls > 300 {
			t.Errorf("asked %d times within a minute, %d taken", calls, len(taken))
		}
		if bare > 3 { // that would not help, and loses the texts once the store is back
			t.Errorf("%d results were tried without their texts", bare)
		}
		st.Became(nil)
		time.Sleep(recordAgain + time.Second)
		synctest.Wait()
		if _, taken = st.Seen(); len(taken) != n || !settledNow(s) {
			t.Fatalf("%d of %d are recorded", len(taken), n)
		}
		for id, r := range taken {
			if r.State != jobs.StateSucceeded || string(r.Output) != "out" {
				t.Errorf("task %s is recorded as %s with the output %q", id, r.State, r.Output)
			}
		}
	})
}
