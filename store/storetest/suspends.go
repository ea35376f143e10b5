package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// suspendCases are about what users say of the due times of jobs.
var suspendCases = []Case{
	{"Suspend/Until", suspendUntil},
	{"Suspend/Several", suspendSeveral},
	{"Suspend/Resume", suspendResume},
	{"Suspend/SkipNext", skipNext},
}

// stateOf is the state of a job as a decision gets it, and its status as people see it.
func (s *scene) stateOf(job string) (state ledger.JobState, status ledger.JobStatus) {
	s.t.Helper()
	_, err := s.Store.Decide(s.ctx(), s.deciding(func(states []ledger.JobState) []ledger.Decision {
		state = states[slices.IndexFunc(states, func(is ledger.JobState) bool { return is.Name == job })]
		return nil
	}))
	must(s.t, err)
	all, err := s.Store.Jobs(s.ctx(), job)
	must(s.t, err)
	return state, all[0]
}

// An override with an end is shown until then. A decision gets it as it was set: what was due before its end may still be undecided.
func suspendUntil(t *testing.T, b *Bench) {
	s := newScene(t, b)
	yes, no := true, false
	_, err := s.Store.SuspendJobs(s.ctx(), []string{"a"}, "ann", ledger.Suspension{Suspended: &yes, Until: time.Now().Add(-time.Hour)})
	if wrong, is := errors.AsType[*jobs.FieldError](err); !is || wrong.Path != "until" || !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("an end that has passed: %v", err)
	}
	if state, status := s.stateOf("a"); state.Suspended != nil || status.Override != nil {
		t.Errorf("it was set: %+v", status)
	}
	for _, override := range []*bool{&yes, &no} {
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		if set, err := s.Store.SuspendJobs(s.ctx(), []string{"a"}, "ann", ledger.Suspension{Suspended: override, Until: until}); err != nil || !slices.Equal(set, []string{"a"}) {
			t.Fatalf("%q, %v", set, err)
		}
		state, status := s.stateOf("a")
		if state.Suspended == nil || *state.Suspended != *override || !state.Until.Equal(until) {
			t.Errorf("before its end a decision gets %+v", state.Suspension)
		}
		if status.Suspended != *override || status.Override == nil || status.SuspendedBy != "ann" || !status.SuspendedUntil.Equal(until) {
			t.Errorf("before its end it is shown as %+v", status.Job)
		}
		s.DB.Exec(t, "UPDATE {jobs} SET suspended_until=? WHERE name='a'", time.Now().Add(-time.Hour).UnixMicro())
		state, status = s.stateOf("a")
		if state.Suspended == nil || state.Until.IsZero() {
			t.Errorf("after its end a decision gets %+v", state.Suspension)
		}
		if status.Suspended || status.Override != nil || status.SuspendedBy != "" || !status.SuspendedUntil.IsZero() {
			t.Errorf("after its end it is shown as %+v", status.Job)
		}
		st, is := sqlOf(b.Store)
		if !is {
			continue
		}
		standings, err := st.Sides().API.JobStandings(s.ctx())
		must(t, err)
		over, err := st.Sides().API.Overview(s.ctx(), 10)
		must(t, err)
		for _, j := range standings {
			if j.Name == "a" && j.Suspended != nil {
				t.Errorf("after its end its standing has %v", *j.Suspended)
			}
		}
		for _, n := range over.Next {
			if n.Job == "a" && n.Suspended != nil {
				t.Errorf("after its end the overview has %v", *n.Suspended)
			}
		}
	}
	must(t, s.Store.SuspendJob(s.ctx(), "a", "bob", &yes))
	if state, status := s.stateOf("a"); !state.Until.IsZero() || !status.Suspended || !status.SuspendedUntil.IsZero() {
		t.Errorf("the end of another override was kept: %+v", status.Job)
	}
}

// Several jobs are set at once, those that no configuration has are left out, and others stay.
func suspendSeveral(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := definitions()
	d.Jobs = d.Jobs[:2]
	load(t, b, s.session, d)
	yes := true
	set, err := s.Store.SuspendJobs(s.ctx(), []string{"zz", "b", "c", "b"}, "ann", ledger.Suspension{Suspended: &yes})
	if err != nil || !slices.Equal(set, []string{"b"}) {
		t.Errorf("%q, %v", set, err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE suspended=1 OR suspended_by<>''")
	if set, err = s.Store.SuspendJobs(s.ctx(), []string{"a", "b"}, "bob", ledger.Suspension{}); err != nil || len(set) != 2 {
		t.Errorf("%q, %v", set, err)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {jobs} WHERE suspended IS NOT NULL OR suspended_by<>''")
	if set, err = s.Store.SuspendJobs(s.ctx(), []string{"zz"}, "bob", ledger.Suspension{Suspended: &yes, Until: time.Now().Add(time.Hour)}); err != nil || len(set) > 0 {
		t.Errorf("%q, %v", set, err)
	}
}

// A job that its definition suspends is resumed by an override. Of one that it does not suspend the override is cleared, so that it does not hold over a
// later definition; where the definition is not known the override is set.
func suspendResume(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := definitions()
	for i := range d.Jobs {
		d.Jobs[i].Hash = "shown"
	}
	d.Shown = func(job string) json.RawMessage {
		return json.RawMessage(map[string]string{"a": `{"suspend":true,"timezone":"UTC"}`, "b": `{"timezone":"UTC"}`, "c": `{}`}[job])
	}
	load(t, b, s.session, d)
	yes, no := true, false
	for _, was := range []ledger.Suspension{{}, {Suspended: &yes}, {Suspended: &yes, Until: time.Now().Add(time.Hour)}, {Suspended: &no}} {
		for _, job := range []string{"a", "b", "c"} {
			_, err := s.Store.SuspendJobs(s.ctx(), []string{job}, "ann", was)
			must(t, err)
		}
		set, err := s.Store.SuspendJobs(s.ctx(), []string{"b", "a", "c"}, "bob", ledger.Suspension{Suspended: &no})
		if err != nil || !slices.Equal(set, []string{"a", "b", "c"}) {
			t.Errorf("resumed are %q, %v", set, err)
		}
		for job, want := range map[string]string{"a": "bob", "b": "", "c": "bob"} {
			state, status := s.stateOf(job)
			if is := state.Suspended != nil; is != (want != "") || status.SuspendedBy != want || status.Suspended || !state.Until.IsZero() {
				t.Errorf("after %+v job %s has %+v, shown as %+v", was, job, state.Suspension, status.Job)
			}
		}
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	_, err := s.Store.SuspendJobs(s.ctx(), []string{"b"}, "ann", ledger.Suspension{Suspended: &no, Until: until})
	must(t, err)
	if state, _ := s.stateOf("b"); state.Suspended == nil || !state.Until.Equal(until) {
		t.Errorf("an override with an end of its own was cleared: %+v", state.Suspension)
	}
}

// What is to be skipped is counted off by decisions, and replaced by users.
func skipNext(t *testing.T, b *Bench) {
	s := newScene(t, b)
	must(t, s.Store.SkipNext(s.ctx(), "a", "ann", 3))
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE skip_next<>0 OR skip_by<>''")
	left := func(want int, by string) {
		t.Helper()
		state, status := s.stateOf("a")
		if state.SkipNext != want || state.SkipBy != by || status.SkipNext != want || status.SkipBy != by {
			t.Errorf("%d are left by %q, and shown as %d by %q; want %d by %q", state.SkipNext, state.SkipBy, status.SkipNext, status.SkipBy, want, by)
		}
	}
	left(3, "ann")
	decide := func(job string, n int) {
		t.Helper()
		_, err := s.decide(ledger.Decision{Job: job, Skipped: n})
		must(t, err)
	}
	decide("b", 1)
	left(3, "ann")
	decide("a", 2)
	left(1, "ann")
	must(t, s.Store.SkipNext(s.ctx(), "a", "bob", 2))
	left(2, "bob")
	decide("a", 5)
	left(0, "bob")
	must(t, s.Store.SkipNext(s.ctx(), "a", "carol", 0))
	left(0, "")
	d := definitions()
	d.Jobs = d.Jobs[:1]
	load(t, b, s.session, d)
	for _, job := range []string{"b", "zz"} {
		if err := s.Store.SkipNext(s.ctx(), job, "ann", 1); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("job %s: %v", job, err)
		}
	}
}
