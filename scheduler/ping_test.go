package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// outside keeps who called it in which turn, and answers with an error while it is away.
type outside struct {
	mu    sync.Mutex
	turns map[string][]string // replicas by id of the turn
	tries int
	away  bool
}

func (o *outside) Run(_ context.Context, t jobs.Task, _ io.Writer) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tries++
	if o.away {
		return errors.New("connection refused")
	}
	if !strings.Contains(string(t.Payload), `"text":"[prod] replica `+t.Replica+` works"`) || t.IdempotencyKey != t.ID {
		return fmt.Errorf("called with %+v", t)
	}
	o.turns[t.ID] = append(o.turns[t.ID], t.Replica)
	return nil
}

func (o *outside) Describe() string { return "outside" }

func (o *outside) set(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
}

// take returns how many turns were called in, how many calls there were, and by whom, since it was asked last.
func (o *outside) take() (turns, calls int, by []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, replicas := range o.turns {
		turns, calls, by = turns+1, calls+len(replicas), append(by, replicas...)
	}
	clear(o.turns)
	slices.Sort(by)
	return turns, calls, slices.Compact(by)
}

func (o *outside) tried() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.tries
	o.tries = 0
	return n
}

// hindered is a store that one replica cannot reach while it is silent, and in which nothing is decided while it is busy.
type hindered struct {
	*memstore.Store
	silent, busy atomic.Bool
}

func (h *hindered) gone() error {
	if h.silent.Load() {
		return jobs.ErrUnavailable
	}
	return nil
}

func (h *hindered) Beat(ctx context.Context, session string) (time.Time, error) {
	if err := h.gone(); err != nil {
		return time.Time{}, err
	}
	return h.Store.Beat(ctx, session)
}

func (h *hindered) Peers(ctx context.Context) ([]ledger.Peer, error) {
	if err := h.gone(); err != nil {
		return nil, err
	}
	return h.Store.Peers(ctx)
}

func (h *hindered) Ready(ctx context.Context, judge ledger.Judge) (ledger.Ready, error) {
	if err := h.gone(); err != nil {
		return ledger.Ready{}, err
	}
	return h.Store.Ready(ctx, judge)
}

func (h *hindered) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	if h.busy.Load() {
		return ledger.Decided{Now: time.Now()}, nil
	}
	return h.Store.Decide(ctx, d)
}

// pinging are replicas that call one monitor outside.
type pinging struct {
	t        *testing.T
	outside  *outside
	set      jobs.Set
	log      *replicatest.Lines
	stores   []*hindered
	replicas []*Scheduler
}

func startPinging(t *testing.T, ids ...string) (p *pinging, stop func()) {
	t.Helper()
	p = &pinging{t: t, outside: &outside{turns: map[string][]string{}}, log: &replicatest.Lines{}}
	p.set = jobs.Set{Name: "prod", Ping: jobs.Ping{Handler: p.outside}, Jobs: map[string]jobs.Job{
		"often": {Schedule: "@every 10s", Handler: jobs.Named("nothing", jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil }))},
	}}
	db := memstore.New()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, len(ids))
	for _, id := range ids {
		st := &hindered{Store: &memstore.Store{Database: db}}
		s, err := newOn(st, nil, p.set, Options{ID: id, Logger: slog.New(p.log)})
		if err != nil {
			t.Fatal(err)
		}
		p.stores, p.replicas = append(p.stores, st), append(p.replicas, s)
		go func() { done <- s.Run(ctx) }()
	}
	time.Sleep(95 * time.Second) // in the middle of a turn, behind the half in which it is taken
	p.outside.take()
	return p, func() {
		cancel()
		for range ids {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

// wants sleeps so many minutes and says in how many turns the monitor must have been called, by whom.
func (p *pinging) wants(when string, minutes, least, most int, by ...string) {
	p.t.Helper()
	time.Sleep(time.Duration(minutes) * time.Minute)
	turns, calls, who := p.outside.take()
	if turns < least || turns > most || calls != turns {
		p.t.Errorf("%s: %d calls in %d turns of %d, want %d to %d", when, calls, turns, minutes, least, most)
	}
	if d := cmp.Diff(by, who); d != "" {
		p.t.Errorf("%s: called by (-want +got) %s", when, d)
	}
}

func (p *pinging) each(do func(h *hindered)) {
	for _, st := range p.stores {
		do(st)
	}
}

// said is what the condition and the vitals of the first replica say.
func (p *pinging) said() (detail, pinged string) {
	for _, c := range p.replicas[0].Health() {
		if c.Name == "ping" {
			detail = c.Detail
			if !c.Ready {
				p.t.Error("a monitor outside makes a replica unready")
			}
		}
	}
	pinged = "unknown"
	if v := p.replicas[0].Vitals().Pinged; v != nil {
		pinged = fmt.Sprint(*v)
	}
	return detail, pinged
}

// The replicas call the monitor in turn, one in each. A replica that is gone loses one turn at most, a pause none; while nobody decides what is due there is no call.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := startPinging(t, "a", "b", "c")
		defer stop()
		p.wants("all live", 9, 9, 9, "a", "b", "c")

		p.stores[2].silent.Store(true)
		p.wants("one is gone", 9, 8, 9, "a", "b")
		p.stores[2].silent.Store(false)
		p.wants("it is back", 3, 2, 3, "a", "b", "c")
		p.wants("it is back", 9, 9, 9, "a", "b", "c")

		p.each(func(h *hindered) { h.silent.Store(true) })
		p.wants("the store is away", 9, 0, 0)
		if detail, pinged := p.said(); detail == "" || pinged != "false" {
			t.Errorf("while the store is away: %q, %s", detail, pinged)
		}
		p.each(func(h *hindered) { h.silent.Store(false) })
		time.Sleep(3 * time.Minute)
		p.outside.take()
		p.wants("the store is back", 9, 9, 9, "a", "b", "c")

		p.each(func(h *hindered) { h.busy.Store(true) })
		time.Sleep(2 * time.Minute)
		if turns, _, _ := p.outside.take(); turns == 0 {
			t.Error("no call right after a decision")
		}
		p.wants("due times are not decided", 9, 0, 0)
		if detail, pinged := p.said(); !strings.Contains(detail, "no replica decides what has been due since 2000-01-01T") || pinged != "false" {
			t.Errorf("while due times are not decided: %q, %s", detail, pinged)
		}
		p.each(func(h *hindered) { h.busy.Store(false) })
		time.Sleep(4 * time.Minute)
		p.outside.take()
		p.wants("due times are decided again", 9, 9, 9, "a", "b", "c")
		if detail, pinged := p.said(); detail != "" || pinged != "true" {
			t.Errorf("when all is well: %q, %s", detail, pinged)
		}

		if _, err := p.stores[0].PauseAll(t.Context(), ledger.Pause{By: "ann", Reason: "maintenance"}); err != nil {
			t.Fatal(err)
		}
		p.wants("everything is paused", 9, 9, 9, "a", "b", "c")
	})
}

// While replicas have different configurations, those with the newest one take all turns: older ones may know of no monitor.
func TestPingByTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := startPinging(t, "a", "b", "c")
		defer stop()
		newer := p.set
		newer.Jobs = map[string]jobs.Job{"other": p.set.Jobs["often"]}
		if _, err := p.replicas[1].Replace(t.Context(), newer, ReplaceOptions{}); err != nil {
			t.Fatal(err)
		}
		p.wants("one is newer", 6, 6, 6, "b")
	})
}

// A reload changes how often, and whether, the monitor is called.
func TestPingIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := startPinging(t, "a", "b")
		defer stop()
		replace := func(g jobs.Ping) {
			p.set.Ping = g
			for _, s := range p.replicas {
				if _, err := s.Replace(t.Context(), p.set, ReplaceOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		replace(jobs.Ping{Handler: p.outside, Every: 10 * time.Second})
		p.wants("six times as often", 2, 12, 12, "a", "b")
		replace(jobs.Ping{})
		p.wants("not at all", 5, 0, 0)
		if detail, pinged := p.said(); detail != "" || pinged != "unknown" {
			t.Errorf("without a monitor: %q, %s", detail, pinged)
		}
	})
}

// A monitor that does not answer is tried again in the same turn, logged once when that begins and once when it ends, and holds nothing up.
func TestPingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := startPinging(t, "a")
		defer stop()
		if detail, pinged := p.said(); detail != "" || pinged != "true" {
			t.Errorf("at first: %q, %s", detail, pinged)
		}
		p.log.Take()
		p.outside.tried()
		p.outside.set(true)
		p.wants("it does not answer", 3, 0, 0)
		if n := p.outside.tried(); n < 30 || n > 3*16 {
			t.Errorf("tried %d times in three turns", n)
		}
		if detail, pinged := p.said(); !strings.HasSuffix(detail, ": connection refused") || pinged != "false" {
			t.Errorf("while it does not answer: %q, %s", detail, pinged)
		}
		p.outside.set(false)
		p.wants("it answers again", 3, 3, 3, "a")
		if n := p.outside.tried(); n != 3 {
			t.Errorf("called %d times in three turns", n)
		}
		want := []string{"the monitor outside was not called reason=connection refused", "the monitor outside is called again"}
		got := slices.DeleteFunc(p.log.Take(), func(line string) bool { return !strings.HasPrefix(line, "the monitor outside") })
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}
