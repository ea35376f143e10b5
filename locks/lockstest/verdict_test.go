package lockstest

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// What was not found out has not passed.
func TestVerdict(t *testing.T) {
	enough := func() *history {
		return &history{ops: make([]porcupine.Operation, linearKeys*linearOps), granted: linearKeys * linearOps, leases: make([]lease, linearClients)}
	}
	for name, c := range map[string]struct {
		result porcupine.CheckResult
		change func(h *history)
		passes bool
	}{
		"one lock":             {porcupine.Ok, func(*history) {}, true},
		"no lock":              {porcupine.Illegal, func(*history) {}, false},
		"the time was over":    {porcupine.Unknown, func(*history) {}, false},
		"few operations":       {porcupine.Ok, func(h *history) { h.ops = h.ops[:len(h.ops)/2] }, false},
		"few grants":           {porcupine.Ok, func(h *history) { h.granted = linearKeys }, false},
		"no sessions ended":    {porcupine.Ok, func(h *history) { h.leases = nil }, false},
		"few answers missing":  {porcupine.Ok, func(h *history) { h.unknown = len(h.ops) / 20 }, true},
		"many answers missing": {porcupine.Ok, func(h *history) { h.unknown = len(h.ops) / 5 }, false},
	} {
		h := enough()
		c.change(h)
		if why := (contest{history: h}).verdict(c.result); (why == nil) != c.passes {
			t.Errorf("%s: %q", name, why)
		}
	}
}
