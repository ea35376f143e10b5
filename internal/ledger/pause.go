package ledger

import (
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// PausedBy is the caller of a pause that jobs.PauseOn asked for.
const PausedBy = "pause_on"

// PauseOn is what pauses a pool.
type PauseOn struct {
	Pool string
	jobs.PauseOn
}

// PauseWindow is how the last attempts of a pool ended, the latest last: a 1 for each that failed, and a 0 for each that succeeded.
type PauseWindow string

// Add adds ends of attempts, and says why the pool is to be paused; "": it is not. A pause empties the window, and what ended together with
// its last attempt is not in the next one.
func (w PauseWindow) Add(p jobs.PauseOn, failed []bool) (PauseWindow, string) {
	for _, bad := range failed {
		w += PauseWindow("01"[b(bad) : b(bad)+1])
		w = w[max(0, len(w)-p.Of):]
		if n := strings.Count(string(w), "1"); bad && n >= p.Threshold() {
			return "", fmt.Sprintf("%d of the last %d attempts failed; pause_on: %v", n, len(w), p)
		}
	}
	return w, ""
}

func b(is bool) int {
	if is {
		return 1
	}
	return 0
}
