package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// shut is a world whose jobs have calendars.
func shut(seed uint64) *plan {
	p := small(seed, map[string]rule{"a": every(time.Second), "b": every(2 * time.Second), "c": every(3 * time.Second)})
	p.Replicas, p.Slow = 2, false
	d := newDraw(seed, "shut")
	for _, name := range p.names() {
		p.Jobs[name] = p.drawClosed(d, p.Jobs[name])
	}
	return p
}

// Calendars are kept to, and a store that changes what was decided by them is found.
func TestCalendarsAreKeptTo(t *testing.T) {
	t.Parallel()
	left, off := 0, 0
	for seed := range uint64(20) {
		w := simulate(t, shut(seed+1), nil)
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed+1, v.text)
		}
		left, off = left+w.counted["left out"], off+w.counted["put off"]
	}
	if left < 50 || off < 3 {
		t.Errorf("%d due times were left out, %d put off", left, off)
	}
	for want, change := range map[string]func(all []ledger.Opening) []ledger.Opening{
		"comes a row for": func(all []ledger.Opening) []ledger.Opening { // nothing of it is told
			return slices.DeleteFunc(slices.Clone(all), leftOutRow)
		},
		"counts": each(func(o *ledger.Opening) { o.Trigger.Count *= 2 }),
		"by its calendars: ": each(func(o *ledger.Opening) {
			o.Trigger.ReasonCode, o.Trigger.Outcome = reason.CatchUpNone, jobs.Missed
		}),
		"and the row is": each(func(o *ledger.Opening) { o.Trigger.Reason = "outside of calendar another" }),
	} {
		found := false
		for seed := range uint64(10) {
			w := simulate(t, shut(seed+1), func(s ledger.Store) ledger.Store { return altered{s, change} })
			found = found || slices.ContainsFunc(w.violations, func(v violation) bool { return strings.Contains(v.text, want) })
		}
		if !found {
			t.Errorf("%q is not found", want)
		}
	}
}

func leftOutRow(o ledger.Opening) bool { return o.Trigger.ReasonCode == reason.Calendar }

// each changes the rows of what is left out.
func each(change func(o *ledger.Opening)) func(all []ledger.Opening) []ledger.Opening {
	return func(all []ledger.Opening) []ledger.Opening {
		all = slices.Clone(all)
		for i := range all {
			if leftOutRow(all[i]) {
				change(&all[i])
			}
		}
		return all
	}
}

// altered writes other rows than were decided.
type altered struct {
	ledger.Store
	change func(all []ledger.Opening) []ledger.Opening
}

func (s altered) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for i := range decisions {
			decisions[i].Triggers = s.change(decisions[i].Triggers)
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}
