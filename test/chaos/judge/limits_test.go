package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Which limit may hold when, by the calls of clients and their answers.
func TestLimitsThatChange(t *testing.T) {
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	call := func(from, to float64, answer string, most int) history.Ask {
		return history.Ask{What: "limit", Target: "p", Called: at(from), Returned: at(to), Answer: answer, Limits: &history.Limits{MaxRunning: most}}
	}
	for name, c := range map[string]struct {
		asks []history.Ask
		want map[float64]int
	}{
		"none":                     {nil, map[float64]int{0: 2, 100: 2}},
		"raised":                   {[]history.Ask{call(10, 11, "ok", 5)}, map[float64]int{9: 2, 10.5: 5, 12: 5}},
		"lowered":                  {[]history.Ask{call(10, 11, "ok", 1)}, map[float64]int{9: 2, 10.5: 2, 12: 1}},
		"refused":                  {[]history.Ask{call(10, 11, "refused", 5)}, map[float64]int{12: 2}},
		"of another pool":          {[]history.Ask{{What: "limit", Target: "q", Called: at(10), Returned: at(11), Answer: "ok", Limits: &history.Limits{MaxRunning: 5}}}, map[float64]int{12: 2}},
		"those of the file again":  {[]history.Ask{call(10, 11, "ok", 5), call(20, 21, "ok", 0)}, map[float64]int{12: 5, 20.5: 5, 22: 2}},
		"without an answer":        {[]history.Ask{call(10, 12, "unknown", 1)}, map[float64]int{13: 2, 60: 2}},
		"raised without an answer": {[]history.Ask{call(10, 12, "unknown", 5), call(13, 14, "ok", 1), call(40, 41, "ok", 1)}, map[float64]int{9: 2, 11: 5, 15: 5, 39: 5, 42: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			judged := newTrial(&history.History{Run: history.Run{Ended: at(1000), Pools: []history.Pool{{Name: "p", MaxRunning: 2}}}, Asks: c.asks})
			for s, want := range c.want {
				if got := judged.limitsOf("p", at(s), at(s), true).MaxRunning; got != want {
					t.Errorf("at %v s: %d, want %d", s, got, want)
				}
			}
			if got, most := judged.limitsOf("p", at(0), at(0), false).MaxRunning, slices.Max(append(limitsIn(c.asks), 2)); got != most {
				t.Errorf("by another clock: %d, want %d", got, most)
			}
		})
	}
}

func limitsIn(asks []history.Ask) (all []int) {
	for _, a := range asks {
		if a.Answer != "refused" && a.Target == "p" {
			all = append(all, a.Limits.MaxRunning)
		}
	}
	return all
}

// What starts beyond a limit that was lowered is found, and what starts under one that was raised is not.
func TestStartsUnderLimitsThatChange(t *testing.T) {
	for name, c := range map[string]struct {
		file, set history.Limits
		want      bool
	}{
		"max_running lowered": {history.Limits{MaxRunning: 4}, history.Limits{MaxRunning: 1}, true},
		"max_running raised":  {history.Limits{MaxRunning: 1}, history.Limits{MaxRunning: 4}, false},
		"rate lowered":        {history.Limits{Rate: 1000, Burst: 100}, history.Limits{Rate: 1, Burst: 1}, true},
		"rate raised":         {history.Limits{Rate: 1, Burst: 1}, history.Limits{Rate: 1000, Burst: 100}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := clean(eventful)
			p := &h.Run.Pools[0]
			p.MaxRunning, p.Rate, p.Burst = c.file.MaxRunning, c.file.Rate, c.file.Burst
			h.Asks = append(h.Asks, history.Ask{What: "limit", Target: p.Name, Called: began.Add(-3 * time.Second), Returned: began.Add(-2 * time.Second), Answer: "ok", Limits: &c.set})
			r := Judge(h)
			if got := slices.Contains(r.Broken(), Slots); got != c.want || !c.want && !r.OK() {
				t.Errorf("broken: %t\n%s", got, r)
			}
		})
	}
}
