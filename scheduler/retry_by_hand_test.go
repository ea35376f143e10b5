package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A retry of a job's task starts at once, as a new task of the same due time with the first one's key, and is no new
// row in the ledger. It needs the job's slot, and names the first task of the chain.
func TestARetryByHandOfAJobsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := newGiven()
		s := runs(t, st, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}, Options{ID: "a", Workers: 1})
		time.Sleep(time.Second)
		_, first, err := s.RunJob(t.Context(), "j", "ann", "")
		if err != nil {
			t.Fatal(err)
		}
		began := h.now()
		if _, err := s.Retry(t.Context(), first.ID, "bob", ""); !errors.Is(err, jobs.ErrConflict) || err.Error() != "retry task "+first.ID+": conflict: it is running" {
			t.Errorf("a retry of what runs: %v", err)
		}
		h.finish(errors.New("failed"))
		last := first
		for n := range 2 {
			time.Sleep(time.Second)
			retry, err := s.Retry(t.Context(), last.ID, "bob", "")
			if err != nil {
				t.Fatal(err)
			}
			got := h.now()
			if got.ID != retry.ID || got.ID == last.ID || got.RetryOf != first.ID || got.By != "bob" || got.IdempotencyKey != began.IdempotencyKey ||
				got.Reason != "retry of "+last.ID+" by bob" || got.ReasonCode != reason.Retry || !got.ScheduledAt.Equal(first.ScheduledAt) || got.Seq != first.Seq || retry.State != jobs.StateRunning {
				t.Errorf("retry %d is %+v, and begins as %+v", n+1, retry, got)
			}
			if _, err := s.Retry(t.Context(), first.ID, "bob", ""); !errors.Is(err, jobs.ErrConflict) || !strings.HasPrefix(err.Error(), "retry task "+first.ID+": conflict: the run of ") ||
				!strings.Contains(err.Error(), "(task "+retry.ID+") has been running on replica a since ") || !strings.HasSuffix(err.Error(), "; wait for its end, or cancel it first: scheduler tasks cancel "+retry.ID) {
				t.Errorf("a retry beside retry %d: %v", n+1, err)
			}
			h.finish(nil)
			last = retry
		}
		if rows := triggersOf(st); len(rows) != 1 || h.now().ID != "" {
			t.Errorf("the ledger has %+v", rows)
		}
	})
}

// A retry of a pool's task starts at once, too. A task that no replica can run is refused, unless it is forced.
func TestARetryByHandOfAPoolsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h := newGiven()
		s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h}}}, Options{ID: "a"})
		time.Sleep(time.Second)
		if err := st.AddPools(t.Context(), map[string]jobs.Pool{"p": {Handler: h}}); err != nil {
			t.Fatal(err)
		}
		enqueue := func(kind string) jobs.Task {
			t.Helper()
			all, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Kind: kind, Force: true})
			if err != nil {
				t.Fatal(err)
			}
			s.Wake("p")
			return all[0].Task
		}
		first := enqueue("")
		if got := h.now(); got.ID != first.ID {
			t.Fatalf("begun: %+v", got)
		}
		if _, err := s.Retry(t.Context(), first.ID, "bob", ""); !errors.Is(err, jobs.ErrConflict) {
			t.Errorf("a retry of what runs: %v", err)
		}
		h.finish(jobs.Cancel(errors.New("failed")))
		retry, err := s.Retry(t.Context(), first.ID, "bob", "")
		if got := h.now(); err != nil || got.ID != retry.ID || got.RetryOf != first.ID || got.By != "bob" {
			t.Errorf("%v; the retry is %+v, and begins as %+v", err, retry, got)
		}
		h.finish(nil)
		strange := enqueue("strange")
		if _, err := st.Cancel(t.Context(), strange.ID, "ann"); err != nil {
			t.Fatal(err)
		}
		kind := (*jobs.KindError)(nil)
		if _, err := s.Retry(t.Context(), strange.ID, "bob", ""); !errors.As(err, &kind) {
			t.Errorf("a retry of what nobody can run: %v", err)
		}
		if retry, err := s.Retry(t.Context(), strange.ID, "bob", "true"); err != nil || retry.RetryOf != strange.ID {
			t.Errorf("a forced one: %v, %+v", err, retry)
		}
	})
}

// A task that cannot be retried here is refused with the reason.
func TestWhatIsNotRetriedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		h := newGiven()
		close(h.end)
		has := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}
		s := runs(t, &memstore.Store{Database: db}, has, Options{ID: "a"})
		time.Sleep(time.Second)
		_, task, err := s.RunJob(t.Context(), "j", "ann", "")
		if err != nil {
			t.Fatal(err)
		}
		h.now()
		lacks := runs(t, &memstore.Store{Database: db}, jobs.Set{}, Options{ID: "b"})
		time.Sleep(time.Second)
		if _, err := lacks.Retry(t.Context(), task.ID, "bob", "true"); !errors.Is(err, jobs.ErrNotFound) || err.Error() != "retry task "+task.ID+`: job "j": not found` {
			t.Errorf("by a replica without the job: %v", err)
		}
		missing := fmt.Sprintf("%036d", 0)
		if _, err := s.Retry(t.Context(), missing, "bob", "true"); !errors.Is(err, jobs.ErrNotFound) || !strings.HasPrefix(err.Error(), "retry task "+missing+": ") {
			t.Errorf("of what is not there: %v", err)
		}
	})
}
