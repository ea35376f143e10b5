package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// timeoutCode is that of an attempt whose timeout is over.
const timeoutCode = 124

// Codes makes handlers as those of commands.
func (*handler) Codes() (low, high, timeout int) { return 1, 255, timeoutCode }

// drawCode is the code of a failure; 0: it has none.
func drawCode(d draw) int { return pick(d, 0, 1, 1, 2, 75) }

// drawRetriesOn has some jobs and pools retry what fails with some codes alone, the same in all versions.
func (p *plan) drawRetriesOn(d draw) {
	codes := func() []int { return pick(d, []int{1}, []int{2, 1}, []int{75, timeoutCode}, []int{75, 2}) }
	for _, name := range slices.Sorted(maps.Keys(p.Pools)) {
		if pool := p.Pools[name]; pool.Retries.Limit > 0 && d.chance(0.3) {
			pool.Retries.On = codes()
			p.Pools[name] = pool
		}
	}
	for _, name := range p.names() {
		on := codes()
		if !d.chance(0.4) {
			continue
		}
		for _, set := range p.versions() {
			if j, has := set[name]; has && j.Retries.Limit > 0 {
				j.Retries.On = on
				set[name] = j
			}
		}
	}
}

// judgeRetried: what failed is retried if its code is among those that are, and ends with a reason if it is not. With w.mu held.
func (w *world) judgeRetried(row memstore.Task, retried bool, code reason.Code) {
	me := w.runs[claimKey{row.ID, row.Token}]
	if me == nil || me.to.IsZero() || me.ok || me.snoozed {
		return
	}
	on := w.retriesOf(me).On
	failed, listed := me.code, false
	switch {
	case me.stopped && code != reason.Timeout && code != reason.NotRetried:
		return // it was told to stop
	case me.stopped:
		failed = timeoutCode
	}
	w.judgeRetryLimit(me, row, retried, code)
	listed = len(on) == 0 || slices.Contains(on, failed) || failed == 0 && me.asked
	switch {
	case retried && !listed:
		w.violate(row.ID, "task %s failed with code %d, and is retried: only %v are", row.ID, failed, on)
	case code == reason.NotRetried && listed:
		w.violate(row.ID, "task %s failed with code %d, and is not retried, as if that were not among %v", row.ID, failed, on)
	case !retried && !listed && code != reason.NotRetried:
		w.violate(row.ID, "task %s failed with code %d, not among %v, and ended as %s", row.ID, failed, on, cmp.Or(code, "nothing"))
	case code == reason.NotRetried:
		w.counted["not retried"]++
	case retried && len(on) > 0:
		w.counted["retried by its code"]++
	}
}

// fails is the error of a failure with a code.
func fails(code int, text string) error {
	if code == 0 {
		return simulated(text)
	}
	return &jobs.ExitError{Code: code, Text: text}
}

// simulated is an error without a code.
type simulated string

func (s simulated) Error() string { return string(s) }
