package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// idle is a store in which nothing happens but sweeps: each takes the next answer.
type idle struct {
	ledger.Store
	began   time.Time
	answers []answer
	swept   []time.Duration
	limits  []int
	keep    jobs.Retention
	takes   time.Duration
}

type answer struct {
	more bool
	err  error
}

func (s *idle) Sweep(_ context.Context, _ ledger.Judge, keep jobs.Retention, limit int) (bool, error) {
	s.swept = append(s.swept, time.Since(s.began))
	s.limits = append(s.limits, limit)
	s.keep = keep
	time.Sleep(s.takes)
	if len(s.answers) == 0 {
		return false, nil
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a.more, a.err
}

func (*idle) Join(context.Context, ledger.Member) (string, error)             { return "s", nil }
func (*idle) Beat(context.Context, string) (time.Time, error)                 { return time.Now(), nil }
func (*idle) SetDraining(context.Context, string) error                       { return nil }
func (*idle) Leave(context.Context, string) error                             { return nil }
func (*idle) Upcoming(context.Context, []int) ([]ledger.Upcoming, error)      { return nil, nil }
func (*idle) Running(context.Context, string) (ledger.Running, error)         { return ledger.Running{}, nil }
func (*idle) Namespace(context.Context) (string, error)                       { return "", nil }
func (*idle) Reap(context.Context, int) ([]ledger.Reaped, error)              { return nil, nil }
func (*idle) Load(context.Context, string, ledger.Definitions) (int64, error) { return 1, nil }

func (*idle) EndExpired(context.Context, ledger.Judge, int) ([]jobs.Task, time.Time, error) {
	return nil, time.Time{}, nil
}

func (*idle) Ready(context.Context, ledger.Judge) (ledger.Ready, error) { return ledger.Ready{}, nil }

func (*idle) Assert(context.Context, string, ledger.Definitions) (ledger.Assertion, error) {
	return ledger.Assertion{Governs: true}, nil
}

func (*idle) Local() bool { return false }

func (*idle) LateRuns(context.Context, ledger.Judge, int) (ledger.Lateness, error) {
	return ledger.Lateness{}, nil
}

func (*idle) DueOrders(context.Context, time.Time, int) ([]ledger.DueOrder, error) { return nil, nil }

func (*idle) SeenPause() ledger.Pause { return ledger.Pause{} }

func (*idle) Listen(func(pools ...string)) (stop func()) { return func() {} }

func (*idle) Writes() ledger.Writes { return nil }

func (*idle) Overdue(context.Context, time.Time, int) ([]ledger.Upcoming, error) { return nil, nil }

func (*idle) Notify(context.Context, ledger.Notify) (ledger.Notified, error) {
	return ledger.Notified{}, nil
}

func (*idle) Peers(context.Context) ([]ledger.Peer, error) {
	return []ledger.Peer{{Member: ledger.Member{Replica: "a"}, Session: "s"}}, nil
}

// A sweep a minute; while more is left, another one after as long as the last one took; an error changes nothing about it.
func TestWhatIsOlderThanItsRetentionIsSweptEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.Join(jobs.ErrUnavailable, errors.New("away")) // of one kind of rows
		st := &idle{began: time.Now(), takes: 500 * time.Millisecond, answers: []answer{{}, {more: true}, {more: true}, {}, {more: true, err: away}, {err: away}, {}}}
		s, err := scheduler.New(ledger.Sides{Replica: st}, nil, jobs.Set{}, scheduler.Options{ID: "a", Retention: jobs.Retention{Failed: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute+30*time.Second)
		defer stop()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		var at []string
		for _, d := range st.swept {
			at = append(at, d.Round(100*time.Millisecond).String())
		}
		if diff := cmp.Diff([]string{"1m0s", "2m0.5s", "2m1.5s", "2m2.5s", "3m3s", "3m4s", "4m4.5s", "5m5s"}, at); diff != "" {
			t.Errorf("swept at (−want +got):\n%s", diff)
		}
		const day = 24 * time.Hour
		if diff := cmp.Diff(jobs.Retention{Triggers: 30 * day, Succeeded: 2 * day, Failed: time.Hour, Output: 7 * day}, st.keep); diff != "" {
			t.Error(diff)
		}
		for _, limit := range st.limits {
			if limit < 1 {
				t.Errorf("swept at most %d rows", limit)
			}
		}
	})
}
