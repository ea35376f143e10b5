package judge

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// lanes is the part of I3 about the requests, in the order in which targets saw them. No two attempts have the
// same token. A target that compares tokens accepts each but those after a larger one, and those are of
// attempts that were claimed before the one with the larger: it never refuses the latest. The target without a
// check notes which it would have refused.
func (t *trial) lanes() {
	largest := map[string]history.Effect{}
	first := map[string]history.Effect{} // by subject and token
	for _, e := range t.h.Effects {
		if e.What != history.Fenced && e.What != history.Open {
			continue
		}
		who := e.Job
		if who == "" {
			who = "task " + e.TaskID
		}
		key := fmt.Sprintf("%s %d", who, e.Token)
		if f, seen := first[key]; seen && (f.TaskID != e.TaskID || f.Attempt != e.Attempt) {
			t.violate(Slots, who, e.At, "attempt %d of %s and attempt %d of %s came with token %d both", f.Attempt, f.TaskID, e.Attempt, e.TaskID, e.Token)
		}
		first[key] = e
		l, stale := largest[who], e.Token < largest[who].Token
		fenced := e.What == history.Fenced
		switch {
		case fenced && stale && !e.Refused:
			t.violate(Slots, who, e.At, "the target took token %d of %s after token %d of %s", e.Token, e.Replica, l.Token, l.Replica)
		case fenced && !stale && e.Refused:
			t.violate(Slots, who, e.At, "the target refused token %d of %s after token %d", e.Token, e.Replica, l.Token)
		case stale && t.claimedAfter(e, l):
			t.violate(Slots, who, e.At, "token %d of %s is stale beside token %d of %s, and was given later", e.Token, e.Replica, l.Token, l.Replica)
		}
		if !stale {
			largest[who] = e
		}
	}
}

// claimedAfter reports whether the audit has the claim of a behind that of b.
func (t *trial) claimedAfter(a, b history.Effect) bool {
	mine, other := t.claims[claimKey{a.TaskID, a.Token}], t.claims[claimKey{b.TaskID, b.Token}]
	return mine != nil && other != nil && mine.seq > other.seq
}
