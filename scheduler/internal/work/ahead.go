package work

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// lookedFor is how long what a look of the poll has found spares other looks. An idle replica sends one statement each pollSlow for all of them.
const lookedFor = 2 * pollSlow

// aheadAt is what a look of the poll has found, and when it began.
type aheadAt struct {
	ledger.Ahead
	at time.Time
}

// Ahead returns what the last look of the poll has found; false if it is older than lookedFor, as while the poll waits for the store, or no work
// may begin. Then each loop looks for itself.
func (e *Executor) Ahead() (ledger.Ahead, bool) {
	a := e.ahead.Load()
	if a == nil || time.Since(a.at) > lookedFor {
		return ledger.Ahead{}, false
	}
	return a.Ahead, true
}
