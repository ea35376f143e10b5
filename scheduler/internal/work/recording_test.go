package work

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// While the store is away readiness says so, however long, and the results that waited are recorded whole once it is back:
// in one call, and at the next try.
func TestResultsOutliveAnAbsenceOfTheStore(t *testing.T) {
	for _, n := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			st := replicatest.NewPicky(replicatest.Away)
			s := recording(t, st, n)
			s.members.SetLoaded()
			time.Sleep(10*time.Minute + recordRetry/2)
			if up := s.storeAnswers(); up || !s.work.register.holds("0") || settledNow(s) {
				t.Errorf("%d results: the store is there: %v; the result is held: %v", n, up, s.work.register.holds("0"))
			}
			st.Became(nil)
			before, _ := st.Seen()
			time.Sleep(recordRetry)
			synctest.Wait()
			calls, taken := st.Seen()
			if len(taken) != n || calls-before != 1 || !settledNow(s) || s.work.register.holds("0") {
				t.Errorf("%d of %d are recorded by %d calls", len(taken), n, calls-before)
			}
			for id, r := range taken {
				if string(r.Output) != "out" || r.State != jobs.StateSucceeded || r.Reason != "" {
					t.Errorf("task %s is recorded as %+v", id, r)
				}
			}
		})
	}
}

// timid is a store some of whose calls take longer than a call may.
type timid struct {
	*replicatest.Picky
	slow int
}

func (s *timid) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	if s.slow--; s.slow >= 0 {
		<-ctx.Done()
		return nil, jobs.ErrUnavailable
	}
	return s.Picky.Finish(ctx, session, results)
}

// A single result that takes too long is tried again until it is taken.
func TestASlowStoreGetsASingleResultAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &timid{replicatest.NewPicky(nil), 3}
		s := replicaOn(t, st, replicatest.Blocked{})
		s.work.recorder.add("session", &jobs.Task{ID: "1", Pool: "p"}, ledger.Result{TaskID: "1"})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.work.recorder.run(ctx) }()
		time.Sleep(3 * (recordCall + recordRetry))
		synctest.Wait()
		if _, taken := st.Seen(); len(taken) != 1 {
			t.Error("it is not recorded")
		}
		stop()
		<-ended
	})
}

// A result whose texts the store refuses is recorded without them, at once, and the reason says why: whichever text it
// has, and however many such results there are. A result without texts is not tried in vain.
func TestARefusedResultIsRecordedWithoutItsTexts(t *testing.T) {
	const refused = "recorded without error, output and result, which the store refused: "
	for what, c := range map[string]struct {
		result ledger.Result
		taken  bool
		calls  int
	}{
		"an output": {ledger.Result{Output: []byte("out")}, true, 2},
		"an error":  {ledger.Result{Error: "failed"}, true, 2},
		"a reason":  {ledger.Result{Reason: "timeout"}, true, 2},
		"a result":  {ledger.Result{Value: []byte("1")}, true, 2},
		"no text":   {ledger.Result{}, false, 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := replicatest.NewPicky(func(r ledger.Result) error {
					if strings.HasPrefix(r.Reason, refused) {
						return nil
					}
					return replicatest.ErrRefused
				})
				s := recording(t, st, 0)
				c.result.TaskID, c.result.State = "1", jobs.StateFailed
				s.work.recorder.add("session", &jobs.Task{ID: "1", Pool: "p"}, c.result)
				synctest.Wait()
				calls, taken := st.Seen()
				if got, is := taken["1"]; is != c.taken || calls != c.calls || is && (got.Reason != refused+replicatest.ErrRefused.Error() || got.Error != "" || got.Output != nil || got.Value != nil || got.State != jobs.StateFailed) {
					t.Errorf("recorded: %v, as %+v, by %d calls", is, got, calls)
				}
				if !c.taken {
					return
				}
				for n := range 5 * refusedForAll {
					s.work.recorder.add("session", &jobs.Task{ID: fmt.Sprint("n", n), Pool: "p"}, ledger.Result{TaskID: fmt.Sprint("n", n), Output: []byte("out")})
				}
				synctest.Wait()
				if _, taken := st.Seen(); len(taken) != 1+5*refusedForAll || !settledNow(s) {
					t.Errorf("of many such results %d are recorded at once", len(taken)-1)
				}
			})
		})
	}
}

// A result that the store refuses is tried again within recordAgain, though others join it meanwhile.
func TestRefusedResultsAreTriedAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []time.Time
		st := replicatest.NewPicky(func(r ledger.Result) error {
			if r.TaskID == "0" && len(r.Output) > 0 {
				tried = append(tried, time.Now())
			}
			return replicatest.ErrRefused
		})
		s := recording(t, st, 1)
		for n := range 10 {
			time.Sleep(recordAgain / 2)
			id := fmt.Sprint("other ", n)
			s.work.recorder.add("session", &jobs.Task{ID: id, Pool: "p"}, ledger.Result{TaskID: id})
		}
		synctest.Wait()
		if len(tried) < 4 {
			t.Fatalf("tried at %v", tried)
		}
		for n := 1; n < len(tried); n++ {
			if after := tried[n].Sub(tried[n-1]); after > recordAgain+refusedForAll*recordRetry {
				t.Errorf("tried again after %v", after)
			}
		}
	})
}

// While the store refuses every call, readiness says so, and the results are not logged one by one. One result that
// it refuses says nothing about the store, and is logged.
func TestWhatIsSaidOfRefusals(t *testing.T) {
	for n, ready := range map[int]bool{1: true, 2 * recordBatch: false} {
		synctest.Test(t, func(t *testing.T) {
			st := replicatest.NewPicky(func(r ledger.Result) error { return replicatest.ErrRefused })
			s := replicaOn(t, st, replicatest.Blocked{})
			log := &replicatest.Warnings{}
			s.work.log = slog.New(log)
			s.members.SetLoaded()
			for i := range n {
				s.work.recorder.add("session", &jobs.Task{ID: fmt.Sprint(i), Pool: "p"}, ledger.Result{TaskID: fmt.Sprint(i), Output: []byte("out")})
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); s.work.recorder.run(ctx) }()
			time.Sleep(3 * recordAgain / 2)
			if up := s.storeAnswers(); up != ready {
				t.Errorf("%d results are refused: the store is said to be there: %v", n, up)
			}
			told := 0
			for _, line := range log.Take() {
				if strings.HasPrefix(line, "the store refuses a result; it is tried again task=") {
					told++
				}
			}
			if told == 0 || told > 2 { // of one result, and once more when it is tried again
				t.Errorf("%d results are refused: the log says so %d times", n, told)
			}
			stop()
			<-ended
		})
	}
}

// The log names the task of a refused result, why it is refused, and what was lost of it.
func TestWhatIsSaidOfOneRefusedResult(t *testing.T) {
	result := ledger.Result{TaskID: "7", Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "timeout", Error: "curse", Output: []byte("out")}
	for want, taken := range map[string]bool{
		"end recorded without its error, output and result, which the store refused task=7 job=j pool=p state=failed refusal=" + replicatest.ErrRefused.Error() + " error=curse": true,
		"the store refuses a result; it is tried again task=7 job=j pool=p state=failed refusal=" + replicatest.ErrRefused.Error() + " in=10s":                                   false,
	} {
		st := replicatest.NewPicky(func(r ledger.Result) error {
			if taken && r.Error == "" {
				return nil
			}
			return replicatest.ErrRefused
		})
		s, log := replicaOn(t, st, replicatest.Blocked{}), &replicatest.Warnings{}
		s.work.log = slog.New(log)
		result.Task = &jobs.Task{ID: "7", Job: "j", Pool: "p", Kind: "k", Reason: "before"}
		if !s.work.recorder.record(t.Context(), []outcome{{session: "session", result: result}}) {
			t.Error("it is told to end")
		}
		if got := log.Take(); len(got) == 0 || got[0] != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// Slowness is not refusal: a result that the store is too slow for together with another, and refuses alone, is recorded
// without its texts at once, too.
func TestASlowStoreIsNotOneThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := map[string]bool{"0": true, "1": true} // with or without texts
		st := replicatest.NewPicky(func(r ledger.Result) error {
			if refused[r.TaskID] || len(r.Output) > 0 {
				return replicatest.ErrRefused
			}
			return nil
		})
		s := replicaOn(t, oneByOne{st}, replicatest.Blocked{})
		for i := range recordBatch {
			s.work.recorder.add("session", &jobs.Task{ID: fmt.Sprint(i), Pool: "p"}, ledger.Result{TaskID: fmt.Sprint(i), Output: []byte("out")})
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.work.recorder.run(ctx) }()
		time.Sleep(10 * recordCall) // eight halves, and the pair of 2 and 3
		if _, taken := st.Seen(); len(taken) == 0 {
			t.Error("none is recorded")
		}
		stop()
		<-ended
	})
}

// oneByOne is a store that takes too long for more than one result.
type oneByOne struct{ *replicatest.Picky }

func (s oneByOne) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	if len(results) > 1 {
		<-ctx.Done()
		return nil, jobs.ErrUnavailable
	}
	return s.Picky.Finish(ctx, session, results)
}

// A retry is counted from now, by the clock of the database as the replica estimates it when it writes the result.
func TestARetryIsCountedFromWhenItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewPicky(nil)
		s := replicaOn(t, st, replicatest.Blocked{})
		s.members.Clock().Observe(boottime.Now(), time.Now().Add(time.Second)) // the database's is ahead
		s.work.recorder.add("session", &jobs.Task{ID: "1", Pool: "p"}, ledger.Result{TaskID: "1", Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Minute})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		time.Sleep(time.Hour)
		go func() { defer close(ended); s.work.recorder.run(ctx) }()
		synctest.Wait()
		stop()
		<-ended
		_, taken := st.Seen()
		if now := s.members.Clock().Now(); !taken["1"].Now.Equal(now) || taken["1"].RetryIn != time.Minute {
			t.Errorf("recorded at %v as %+v", now, taken["1"])
		}
	})
}
