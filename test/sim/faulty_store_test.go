package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// A store with a bug is found, by the check that is about it: the judge can fail.
func TestAStoreWithABugIsFound(t *testing.T) {
	var estrangedStores atomic.Int64
	for what, lie := range some(map[string]struct {
		said string
		of   func(ledger.Store) ledger.Store
	}{
		"drops the rows of a decision":    {`comes a row for|nothing covers`, func(s ledger.Store) ledger.Store { return dropsRows{s} }},
		"takes results and keeps nothing": {`not at rest|has not ended`, func(s ledger.Store) ledger.Store { return forgetful{s} }},
		"gives the same tasks twice":      {`started twice with token|is r\d.*'s$`, func(s ledger.Store) ledger.Store { return &generous{Store: s} }},
		"invents tokens":                  {`which no claim has$`, func(s ledger.Store) ledger.Store { return inventive{s} }},
		"ends what goes back":             {`ran, and its task never started$`, func(s ledger.Store) ledger.Store { return final{s} }},
		"admits what has no leases":       {`still executes on .* when .* starts on`, func(s ledger.Store) ledger.Store { return lockless{s} }},
		"forgets what was skipped":        {`a user has said|were skipped .* are left`, func(s ledger.Store) ledger.Store { return forgetsSkips{s} }},
		"suspends for ever":               {`are skipped as suspended, which it was not`, func(s ledger.Store) ledger.Store { return endless{s, false} }},
		"suspends nothing until":          {`is suspended, and its due time`, func(s ledger.Store) ledger.Store { return endless{s, true} }},
		"decides while all is paused":     {`while everything was paused`, func(s ledger.Store) ledger.Store { return restless{s} }},
		"keeps the chunks of outputs":     {`was kept of its output while it ran is still there`, func(s ledger.Store) ledger.Store { return hoarding{s} }},
		"numbers each load":               {`under number .*, which it had got as`, func(s ledger.Store) ledger.Store { return renumbering{s} }},
		"draws jitter by the replica":     {` starts at .*, and it is`, func(s ledger.Store) ledger.Store { return estranged{s, estrangedStores.Add(1)} }},
		"takes the first beat alone":      {`was declared dead, and nothing was wrong with it alone$`, func(s ledger.Store) ledger.Store { return ignores{s} }},
		"counts no failure":               {`counts \d+ runs that failed in a row|runs have failed in a row, and its due time`, func(s ledger.Store) ledger.Store { return uncounted{s} }},
		"pauses no pool":                  {`were not counted for pause_on`, func(s ledger.Store) ledger.Store { return otherwise{s, jobs.PauseOn{}} }},
		"pauses pools at once":            {`for pause_on and is paused true`, func(s ledger.Store) ledger.Store { return otherwise{s, jobs.PauseOn{Failures: 1, Of: 1}} }},
		"pauses pools too late":           {`for pause_on and is paused false`, func(s ledger.Store) ledger.Store { return otherwise{s, jobs.PauseOn{Failures: 100, Of: 9}} }},
		"expects nothing":                 {`nothing is expected of the run of`, func(s ledger.Store) ledger.Store { return expectsNothing{s} }},
		"tells of what is in time":        {`is late was decided before its time`, func(s ledger.Store) ledger.Store { return hasty{s} }},
		"looks at nothing that is late":   {`not at rest: what is expected of`, func(s ledger.Store) ledger.Store { return blind{s} }},
		"gives slots that are taken":      {`slots, and \d+ runs have one when`, func(s ledger.Store) ledger.Store { return deciding{s, givesAll} }},
		"gives slots in another order":    {`got a slot before`, func(s ledger.Store) ledger.Store { return deciding{s, givesTheLast} }},
		"shows nothing that waits":        {`runs of \S+ wait for a slot, and`, func(s ledger.Store) ledger.Store { return deciding{s, showsNone} }},
		"stops nothing that is replaced":  {`waits for a slot, and nothing was replaced$`, func(s ledger.Store) ledger.Store { return deciding{s, endsNone} }},
		"edits what is past":              {`has another schedule since .*, and what was due by it before may run`, func(s ledger.Store) ledger.Store { return retroactive{s} }},
		"an edit takes limits away":       {`by its definition`, func(s ledger.Store) ledger.Store { return unlimited{s} }},
		"an edit leaves out the calendar": {`comes a row for|nothing covers`, func(s ledger.Store) ledger.Store { return overtakes{s, reason.Calendar} }},
		"an edit leaves out what was due": {`comes a row for|nothing covers`, func(s ledger.Store) ledger.Store { return overtakes{s, reason.ScheduleChanged} }},
		"tells of no suspension":          {`and \d+ events tell of it`, func(s ledger.Store) ledger.Store { return eavesdrops(s, 0) }},
		"tells of suspensions twice":      {`and \d+ events tell of it|is told to be suspended`, func(s ledger.Store) ledger.Store { return eavesdrops(s, 2) }},
		"forgets lost attempts":           {`slots, and \d+ runs have one when`, func(s ledger.Store) ledger.Store { return deciding{s, losesNone} }},
	}) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			isFound(t, 300, lie.said, func(seed uint64) *world { return simulate(t, newPlan(seed), lie.of) })
		})
	}
}

// What is excused while replicas start and stop, or once the last one has left, is found elsewhere.
func TestExcusesEndWithTheirReason(t *testing.T) {
	const seeds = 300
	for want, lie := range some(map[string]func(ledger.Store) ledger.Store{
		"late, and nothing was wrong": func(s ledger.Store) ledger.Store { return tardy{s} },
		" is open":                    func(s ledger.Store) ledger.Store { return hollow{s} },
	}) {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				w := simulate(t, newPlan(seed+1), lie)
				if slices.ContainsFunc(w.violations, func(v violation) bool { return strings.Contains(v.text, want) }) {
					return
				}
			}
			t.Errorf("%d seeds have not shown it", seeds)
		})
	}
}

// hoarding does not delete what was kept of an output while its attempt ran.
type hoarding struct{ ledger.Store }

func (s hoarding) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	for i := range results {
		results[i].Chunked = false
	}
	return s.Store.Finish(ctx, session, results)
}

// tardy decides late.
type tardy struct{ ledger.Store }

func (s tardy) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	time.Sleep(onTime + 50*time.Millisecond)
	return s.Store.Decide(ctx, d)
}

// hollow makes rows without their tasks.
type hollow struct{ ledger.Store }

func (s hollow) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for i := range decisions {
			for n := range decisions[i].Triggers {
				decisions[i].Triggers[n].Task = nil
			}
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}

// forgetsSkips does not count down how many due times are skipped.
type forgetsSkips struct{ ledger.Store }

func (s forgetsSkips) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for i := range decisions {
			decisions[i].Skipped = 0
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}

// restless decides whatever is paused.
type restless struct{ ledger.Store }

func (s restless) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	d.ByHand = true
	out, err := s.Store.Decide(ctx, d)
	out.Paused = ledger.Pause{}
	return out, err
}

func (s restless) SeenPause() ledger.Pause { return ledger.Pause{} }

// endless ignores the end of an override, or the override that has one.
type endless struct {
	ledger.Store
	never bool
}

func (s endless) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		for i := range states {
			if is := &states[i].Suspension; s.never && !is.Until.IsZero() {
				*is = ledger.Suspension{}
			} else {
				is.Until = time.Time{}
			}
		}
		return decide(now, states)
	}
	return s.Store.Decide(ctx, d)
}

// expectsNothing drops the expectations of a decision.
type expectsNothing struct{ ledger.Store }

func (s expectsNothing) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for i := range decisions {
			for n := range decisions[i].Triggers {
				decisions[i].Triggers[n].StartBy, decisions[i].Triggers[n].FinishBy = time.Time{}, time.Time{}
			}
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}

// hasty looks at expectations before their time.
type hasty struct{ ledger.Store }

func (s hasty) LateRuns(ctx context.Context, now ledger.Judge, limit int) (ledger.Lateness, error) {
	return s.Store.LateRuns(ctx, func(t time.Time) (time.Time, error) { t, err := now(t); return t.Add(2500 * time.Millisecond), err }, limit)
}

// blind looks at none.
type blind struct{ ledger.Store }

func (s blind) LateRuns(context.Context, ledger.Judge, int) (ledger.Lateness, error) {
	return ledger.Lateness{}, nil
}

type dropsRows struct{ ledger.Store }

func (s dropsRows) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for i := range decisions {
			if decisions[i].Cursor.IsZero() {
				continue // by hand
			}
			decisions[i].Triggers = nil
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}

// uncounted takes no run for one of a job that is suspended when they fail.
type uncounted struct{ ledger.Store }

func (s uncounted) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	results = slices.Clone(results)
	for i := range results {
		results[i].SuspendAfter = false
	}
	return s.Store.Finish(ctx, session, results)
}

// otherwise pauses pools whose attempts fail, if they are to be, by another rule.
type otherwise struct {
	ledger.Store
	rule jobs.PauseOn
}

func (s otherwise) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	results = slices.Clone(results)
	for i := range results {
		if results[i].PauseOn.Of > 0 {
			results[i].PauseOn.PauseOn = s.rule
		}
	}
	return s.Store.Finish(ctx, session, results)
}

// deciding changes what the rules see, and what they decide.
type deciding struct {
	ledger.Store
	lie func(decide func([]ledger.JobState) []ledger.Decision, states []ledger.JobState) []ledger.Decision
}

func (s deciding) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		return s.lie(func(states []ledger.JobState) []ledger.Decision { return decide(now, states) }, slices.Clone(states))
	}
	return s.Store.Decide(ctx, d)
}

type rulesOfAJob = func([]ledger.JobState) []ledger.Decision

// givesAll gives a slot to all that wait.
func givesAll(decide rulesOfAJob, states []ledger.JobState) []ledger.Decision {
	decisions := decide(states)
	for i := range decisions {
		for _, state := range states {
			if state.Name != decisions[i].Job || len(decisions[i].Ends) > 0 {
				continue
			}
			decisions[i].Starts = nil
			for _, task := range state.Queued {
				decisions[i].Starts = append(decisions[i].Starts, task.ID)
			}
		}
	}
	return decisions
}

// givesTheLast gives slots to those that came last.
func givesTheLast(decide rulesOfAJob, states []ledger.JobState) []ledger.Decision {
	decisions := decide(states)
	for i := range decisions {
		for _, state := range states {
			if state.Name == decisions[i].Job && len(decisions[i].Ends) == 0 {
				for n := range decisions[i].Starts {
					decisions[i].Starts[n] = state.Queued[len(state.Queued)-1-n].ID
				}
			}
		}
	}
	return decisions
}

// showsNone shows none of the runs that wait, so that there is always a place in the queue.
func showsNone(decide rulesOfAJob, states []ledger.JobState) []ledger.Decision {
	for i := range states {
		states[i].Queued = nil
	}
	return decide(states)
}

func endsNone(decide rulesOfAJob, states []ledger.JobState) []ledger.Decision {
	decisions := decide(states)
	for i := range decisions {
		decisions[i].Ends = nil
	}
	return decisions
}

func losesNone(decide rulesOfAJob, states []ledger.JobState) []ledger.Decision {
	for i := range states {
		states[i].BusyUntil, states[i].Lost = time.Time{}, nil
	}
	return decide(states)
}

type forgetful struct{ ledger.Store }

func (s forgetful) Finish(_ context.Context, _ string, results []ledger.Result) (all []ledger.Finished, _ error) {
	for _, r := range results {
		all = append(all, ledger.Finished{TaskID: r.TaskID, Finish: ledger.Recorded})
	}
	return all, nil
}

type generous struct {
	ledger.Store
	mu   sync.Mutex
	last ledger.Claimed
}

func (s *generous) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again := s.last; len(again.Tasks) > 0 {
		s.last = ledger.Claimed{}
		return again, nil
	}
	got, err := s.Store.Claim(ctx, c)
	if err == nil && s.last.Tasks == nil {
		s.last = got
		s.last.Tasks = slices.Clone(got.Tasks)
		for i, t := range s.last.Tasks { // each claim's tasks are the engine's own, which writes to them
			own := *t.Task
			s.last.Tasks[i].Task = &own
		}
	}
	return got, err
}

// renumbering gives each load the next number, whatever its content.
type renumbering struct{ ledger.Store }

func (s renumbering) Enter(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	d.Activate = true
	return s.Store.Enter(ctx, session, d)
}

func (s renumbering) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	d.Activate = true
	return s.Store.Load(ctx, session, d)
}

type inventive struct{ ledger.Store }

func (s inventive) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	got.Tasks = slices.Clone(got.Tasks) // what waits to strike reads the others
	for i := range got.Tasks {
		got.Tasks[i].Token++
	}
	return got, err
}

type final struct{ ledger.Store }

func (s final) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	for i := range results {
		if results[i].Verdict == ledger.HandBack {
			results[i].Verdict = ledger.Ended
		}
	}
	return s.Store.Finish(ctx, session, results)
}

type lockless struct{ ledger.Store }

func (s lockless) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	c.Locks = nil
	return s.Store.Claim(ctx, c)
}

type ignores struct{ ledger.Store }

func (s ignores) Beat(ctx context.Context, session string) (time.Time, error) {
	peers, err := s.Peers(ctx)
	for _, p := range peers {
		if p.Session == session && p.Beat > 0 {
			return time.Now(), nil
		}
	}
	if err != nil {
		return time.Time{}, err
	}
	return s.Store.Beat(ctx, session)
}

// estranged gives every other replica a namespace of its own, so that they disagree on when jobs with jitter start.
type estranged struct {
	ledger.Store
	n int64
}

func (s estranged) Namespace(ctx context.Context) (string, error) {
	if s.n%2 == 0 {
		return s.Store.Namespace(ctx)
	}
	return fmt.Sprint("of ", s.n), nil
}
