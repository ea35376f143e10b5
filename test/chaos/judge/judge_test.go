package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Runs that keep every promise pass, whatever they look like.
func TestCleanRunsPass(t *testing.T) {
	for seed := range uint64(50) {
		r := Judge(clean(seed))
		if !r.OK() {
			t.Fatalf("seed %d: %s", seed, r)
		}
		if r.Triggers < 80 || r.Tasks < 100 || r.Healthy.N == 0 || r.Faulty.N == 0 || r.Outcomes["ran"] == 0 || r.Outcomes["skipped"] == 0 {
			t.Fatalf("seed %d is no run to speak of: %s", seed, r)
		}
	}
}

// Two faults at the same time are one line of the report, and excuse what they did together.
func TestPair(t *testing.T) {
	h := clean(eventful)
	h.Windows[0].Pair = "cut"
	second := h.Windows[0]
	second.Nemesis, second.Pair, second.Kinds, second.Replicas = "cut", "kill", []history.Kind{history.LockDown}, nil
	second.Healed = second.Healed.Add(time.Second)
	h.Windows = append(h.Windows, second)
	r := Judge(h)
	if !r.OK() || len(r.Windows) != 1 || r.Windows[0].Name != "cut + kill" || r.Windows[0].Lasted != window+time.Second {
		t.Errorf("%s", r)
	}
	h.Windows[1].Applied = false
	if r := Judge(h); r.Windows[0].Applied || !slices.Equal(r.Broken(), []Invariant{NotVacuous}) {
		t.Errorf("one of two was not applied:\n%s", r)
	}
}

// The oracle knows due times without a parser of schedules.
func TestOracle(t *testing.T) {
	at := func(s string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, "2026-03-01T"+s+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	five := every(5*time.Second, 0)
	both := append(every(4*time.Second, time.Second), five...)
	for _, c := range []struct{ after, want time.Time }{
		{at("12:00:00"), at("12:00:01")},
		{at("12:00:01"), at("12:00:05")},
		{at("12:00:04.999999999"), at("12:00:05")}, // of both
		{at("12:00:05"), at("12:00:09")},
		{at("12:00:09"), at("12:00:10")},
	} {
		if got := dueNext(both, c.after); !got.Equal(c.want) {
			t.Errorf("after %v: %v, not %v", c.after, got, c.want)
		}
	}
	if n := dueCount(both, at("12:00:00"), at("12:00:20")); n != 9 { // 0 1 5 9 10 13 15 17 20
		t.Errorf("%d due times", n)
	}
	if isDue(five, at("12:00:05.000000001")) || !isDue(five, at("12:00:05")) {
		t.Error("12:00:05 is due, and nothing near it")
	}
	if got := dueNext(five, time.Unix(-7, 0)); !got.Equal(time.Unix(-5, 0)) {
		t.Errorf("before 1970: %v", got)
	}
	if got := dueNext(nil, at("12:00:00")); !got.IsZero() {
		t.Errorf("never: %v", got)
	}
}
