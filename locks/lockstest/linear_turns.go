package lockstest

import (
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	turnClients = 6
	turnKeys    = 3 // few, so that there are queues
	turnOps     = 250
)

// turns checks that one queue for each key could have given all answers that clients got: granted in the order of arrival,
// together or alone.
var turns = []testCase{
	{"turns", func(t *testing.T, s *suite) { LinearTurns(t, s.Harness, Linear{}) }},
	{"turns through faults", func(t *testing.T, s *suite) {
		if s.Disconnect == nil || s.Reconnect == nil {
			t.Skip("the harness cannot cut off a client; what has a network is tried in test/chaos/linear")
		}
		LinearTurns(t, s.Harness, Linear{Faults: []Fault{{"cut off", s.Disconnect, s.Reconnect}}})
	}},
}

// LinearTurns is Linearizable for waiting in turn: clients try, wait, give up, hold together and alone, and lose their
// sessions. A call without an answer is repeated, and what stays unknown is abandoned. It needs Caps.Shared; clients wait where
// Caps.FIFO says that they are served in order, and hold up to a limit where there is Caps.Limit.
func LinearTurns(t *testing.T, h Harness, l Linear) {
	s := &suite{Harness: h, ttl: max(h.MinTTL, time.Second)}
	if l.Seed == 0 {
		l.Seed = uint64(time.Now().UnixNano()) //nolint:gosec // a seed
	}
	r := s.takeTurns(t, l)
	if h.Votes {
		r.ops = r.certain(r.ops, func(op porcupine.Operation) *question {
			c, a := op.Input.(turnCall), op.Output.(turnAnswer)
			if c.do != turnTry {
				return nil
			}
			return &question{key: c.key, session: c.session, busy: !a.unknown && a.token == 0}
		})
	}
	r.ops = unseen(closed(r.ops))
	result, info := searchTurns(r.ops, linearLimit)
	t.Logf("seed %d: %d operations, %d granted at once, %d in turn, %d places given up, %d sessions ended, %d answers missing",
		l.Seed, len(r.ops), r.atOnce, r.inTurn, r.gaveUp, r.fell, r.unanswered)
	if r.atOnce < turnOps/10 || r.fell < turnClients || r.waits && (r.inTurn < turnOps/10 || r.gaveUp < turnClients) {
		t.Error("too little happened to judge by")
	}
	if result != porcupine.Ok {
		t.Errorf("%s: no queue could have given these answers, or it was not found out; see %s\n%s",
			result, picture(t, turnModel, info, l.Seed), stuck(turnModel, r.ops, info))
	}
}

// turnHistory has the calls and answers of several waiters.
type turnHistory struct {
	*history
	ids    int  // of acquisitions, so far
	waits  bool // clients wait, and do not only try
	limits bool // keys may have a limit

	atOnce, inTurn, gaveUp, fell, unanswered int
}

// takeTurns runs the clients.
func (s *suite) takeTurns(t *testing.T, l Linear) *turnHistory {
	h, ns := &turnHistory{history: newHistory()}, namespace()
	caps := s.client(t).Caps()
	h.waits, h.limits = caps.FIFO, caps.Limit
	s.warm(t, ns)
	planned, span := plan(l.Seed, l.Faults, s.ttl)
	var working sync.WaitGroup
	for n := range turnClients {
		w := &waiter{
			contender: &contender{
				suite: s, t: t, h: h.history, namespace: ns, driver: s.client(t), held: map[int]driver.Token{},
				random: mathrand.New(mathrand.NewPCG(l.Seed, uint64(n))), //nolint:gosec // a schedule, not a secret
			},
			turns: h,
		}
		var breaking sync.WaitGroup
		working.Go(func() {
			breaking.Go(func() { w.suffer(planned[n]) })
			w.run(span)
			breaking.Wait()
		})
	}
	working.Wait()
	return h
}

// id is that of a new acquisition.
func (h *turnHistory) id() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids++
	return h.ids
}

func (h *turnHistory) count(n *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
}
