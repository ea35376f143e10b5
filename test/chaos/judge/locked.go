package judge

import (
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// userKeys is what the keys of users begin with, as programs see them.
const userKeys = "user/"

// execTask is how the subject of a command under "locks exec" begins.
const execTask = "locks exec "

// effectOf is what a command under "locks exec" said, as one that has no task.
func (t *trial) effectOf(l history.Locked) history.Effect {
	return history.Effect{What: l.What, At: l.At, TaskID: execTask + l.Exec, Attempt: 1, Token: l.Token, LockToken: l.Token, Replica: t.execsBy[l.Exec].Beside, PID: l.PID}
}

// ofExec reports whether it is the output of a command under "locks exec".
func (l output) ofExec() bool { return strings.HasPrefix(l.last.TaskID, execTask) }

// lockTokens is the part of I14 about jobs, pools and "locks exec": of the commands that hold one lock, each has a larger
// token of it than all that began before. Excused is what excuses that they overlap, as one that began late was granted the
// lock first.
func (t *trial) lockTokens(who string, sorted []*output) {
	var largest *output
	for _, l := range sorted {
		token := l.last.LockToken
		if token == 0 { // of an old run, or locked says so
			continue
		}
		first := l.last
		first.At = l.first
		if largest != nil && token <= largest.last.LockToken && (l.ofExec() || !t.unstoppable(first)) && !t.taken(l, l.first, 0) {
			t.violate(Excludes, who, l.first, "%v came after %v, with the lock's token %d after %d", l, largest, token, largest.last.LockToken)
		}
		if largest == nil || token > largest.last.LockToken {
			largest = l
		}
	}
}

// outlived is the part of I3b about commands under "locks exec": what was killed or frozen while its command worked may
// hold the lock for a ttl more, and the command has ended by then; and what ended by itself has ended its command before.
//
// No excuses: its helper is struck by no fault.
func (t *trial) outlived() {
	first, last := map[string]time.Time{}, map[string]history.Locked{}
	for _, l := range t.h.Locked {
		if at, seen := first[l.Exec]; !seen || l.At.Before(at) {
			first[l.Exec] = l.At
		}
		if l.At.After(last[l.Exec].At) {
			last[l.Exec] = l
		}
	}
	for name, l := range last {
		e, known := t.execsBy[name]
		if !known {
			t.violate(NotVacuous, execTask+name, l.At, "damaged: its command worked, and nothing says how it ended")
			continue
		}
		if l.Key != userKeys+e.Key || l.Token < 1 {
			t.violate(Excludes, execTask+name, l.At, "its command was told the key %q and the token %d, and %s was asked for", l.Key, l.Token, e.Key)
		}
		if e.How != history.ExecKilled && l.At.After(e.Ended.Add(clockError)) {
			t.violate(NoOverlap, execTask+name, l.At, "its command was at work %v after it had ended with %d", ms(l.At.Sub(e.Ended)), e.Exit)
		}
		bound := e.Struck.Add(t.run.LockTTL + t.run.Slack)
		if !e.Struck.IsZero() && first[name].Before(e.Struck) && l.At.After(bound) {
			t.violate(NoOverlap, execTask+name, l.At, "its command was at work %v after its lease had to end, as it was %s", ms(l.At.Sub(bound)), e.How)
		}
	}
}
