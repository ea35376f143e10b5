package lockstest

import (
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	linearClients = 6
	linearKeys    = 20
	linearOps     = 250 // for each key
	// linearLimit bounds the search; an undecided history has not passed.
	linearLimit = time.Minute
)

// linear checks that one lock could have given all answers that many clients got
// (linearizability, checked by porcupine).
var linear = []testCase{
	{"linearizable", func(t *testing.T, s *suite) { Linearizable(t, s.Harness, Linear{}) }},
	{"linearizable through faults", func(t *testing.T, s *suite) {
		if s.Disconnect == nil || s.Reconnect == nil {
			t.Skip("the harness cannot cut off a client; what has a network is tried in test/chaos/linear")
		}
		Linearizable(t, s.Harness, Linear{Faults: []Fault{{"cut off", s.Disconnect, s.Reconnect}}})
	}},
}

// Linear says how concurrent clients are run and judged.
type Linear struct {
	// Seed decides the calls of clients and the times of faults; by the clock if zero. It is in the log. The
	// interleaving depends on the machine too: the same seed need not fail again.
	Seed uint64
	// Faults disconnect one client at a time from the service; each of them about equally often.
	Faults []Fault

	careless bool // the fenced resource accepts every token
}

// Fault is a fault of the connection between one client and the service, for a while.
type Fault struct {
	Name       string
	Begin, End func(t *testing.T, d driver.Driver)
}

// Linearizable runs six clients that acquire, check, use and release twenty locks, with 250 operations on each,
// and lose their sessions at times. It fails if no lock could have given their answers, and if that cannot be
// decided: because there were too few events or answers, or the search took too long. A
// picture of a failed history is left in the folder for temporary files.
func Linearizable(t *testing.T, h Harness, l Linear) {
	r := contend(t, h, l)
	t.Logf("%d operations, %d granted, %d without an answer, %d leases that were not released, %d faults, in %v; seed %d",
		len(r.ops), r.granted, r.unknown, len(r.leases), r.planned, r.took.Round(time.Millisecond), r.seed)
	result, info := r.judge(linearLimit)
	for _, why := range r.verdict(result) {
		t.Error(why)
	}
	if result != porcupine.Ok {
		t.Logf("see %s\n%s", picture(t, model, info, r.seed), stuck(model, r.judged(), info))
	}
}

// contest has the answers that clients got, and how the run went.
type contest struct {
	*history
	seed    uint64
	planned int
	took    time.Duration
}

// contend runs the clients.
func contend(t *testing.T, h Harness, l Linear) contest {
	s := &suite{Harness: h, ttl: max(h.MinTTL, time.Second)}
	began := time.Now()
	r := contest{history: newHistory(), seed: l.Seed}
	r.keysDieAlone, r.votes = h.KeysDieAlone, h.Votes
	if r.seed == 0 {
		r.seed = uint64(began.UnixNano())
	}
	ns := namespace()
	s.warm(t, ns)
	planned, span := plan(r.seed, l.Faults, s.ttl)
	registers := make([]fenced, linearKeys)
	for i := range registers {
		registers[i].careless = l.careless
	}
	var working sync.WaitGroup
	for n := range linearClients {
		c := &contender{
			suite: s, t: t, h: r.history, namespace: ns, driver: s.client(t), registers: registers,
			random: mathrand.New(mathrand.NewPCG(r.seed, uint64(n))), //nolint:gosec // a schedule, not a secret
			held:   map[int]driver.Token{},
		}
		r.planned += len(planned[n])
		var breaking sync.WaitGroup
		working.Go(func() {
			breaking.Go(func() { c.suffer(planned[n]) })
			c.run(linearKeys*linearOps/linearClients, span)
			breaking.Wait()
		})
	}
	working.Wait()
	r.expiries()
	r.took = time.Since(began)
	return r
}

// judge searches for an order in which one lock would have given the answers.
func (r contest) judge(limit time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	return porcupine.CheckOperationsVerbose(model.ToModel(), r.judged(), limit)
}

// judged is what happened, without the answers that say nothing.
func (r contest) judged() []porcupine.Operation {
	if !r.votes {
		return r.ops
	}
	return r.certain(r.ops, func(op porcupine.Operation) *question {
		c, a := op.Input.(call), op.Output.(answer)
		if c.do != doAcquire {
			return nil
		}
		return &question{key: c.key, session: c.session, busy: !a.unknown && !a.yes}
	})
}

// verdict is why a contest has not passed. An undecided one has not.
func (r contest) verdict(result porcupine.CheckResult) (why []string) {
	if answered := len(r.ops) - r.unknown; answered < linearKeys*linearOps*9/10 || r.granted < linearKeys*linearOps/20 || len(r.leases) < linearClients {
		why = append(why, "too little happened to judge by")
	}
	switch result {
	case porcupine.Ok:
	case porcupine.Illegal:
		why = append(why, "no lock could have given these answers")
	default:
		why = append(why, fmt.Sprintf("%s: it was not found out in %v whether a lock could have given these answers", result, linearLimit))
	}
	return why
}

// picture draws a history.
func picture(t *testing.T, m porcupine.NondeterministicModel, info porcupine.LinearizationInfo, seed uint64) string {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-history-%d.html", seed))
	if err := porcupine.VisualizePath(m.ToModel(), info, path); err != nil {
		t.Log(err)
	}
	return path
}
