package quorumlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A server that loses a key after it has confirmed its token, and before the others have, does not count as one that has it: else
// renewals would rely on it.
func TestLostWhileOthersConfirm(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	s := openFor(t, wire(t, group, Options{NodeTimeout: 30 * time.Second, NoGracePeriod: true}))
	results := make([]driver.Result, 1)
	tallies, err := s.begin(t.Context(), "id", lockstest.Wants("a"), results)
	if err != nil {
		t.Fatal(err)
	}
	var rs replies
	await.Until(t, "all have voted", func() bool {
		rs = s.vote(t.Context(), tallies)
		return tallies[0].count(s, rs) == hasMajority && tallies[0].yes == s.everywhere()
	})
	for _, srv := range group[1:] {
		srv.Pause()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.commit(t.Context(), "id", tallies, rs, results)
	}()
	first := client(t, group[0].Addr, nil)
	await.Until(t, "the first server has confirmed the token", func() bool {
		values := first.HVals(t.Context(), s.keys[3]).Val()
		return len(values) == 1 && !strings.HasPrefix(values[0], "0\n")
	})
	if err := first.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	only := mask(0).with(0)
	rs = s.ask(t.Context(), only, 0, allAnswers, func(ctx context.Context, i int) ([]any, error) { return s.on(ctx, i, s.renewing) })
	s.note(rs, 2)
	if rs = s.join(t.Context(), 2, only, rs); !rs[0].said("ok") {
		t.Fatalf("the session was not installed anew: %+v", rs[0])
	}
	for _, srv := range group[1:] {
		srv.Continue()
	}
	<-done
	if results[0].Token == 0 {
		t.Fatalf("%+v, want it granted by the others", results[0])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.book.under[driver.Held{Key: "a", Token: results[0].Token}]; h.on.has(0) {
		t.Error("the first server counts as one that has it")
	}
}
