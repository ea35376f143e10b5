package ledger

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The window slides by one attempt, and a pause comes with the failure that reaches the share, neither before nor later.
func TestPauseWindow(t *testing.T) {
	for _, c := range []struct {
		p     jobs.PauseOn
		ends  string // 1 failed
		at    int    // the end with which it is paused; 0: none
		left  string
		means string
	}{
		{jobs.PauseOn{Failures: 50, Of: 4}, "11", 2, "", "2 of the last 2 attempts failed; pause_on: {failures: 50%, of: 4}"},
		{jobs.PauseOn{Failures: 50, Of: 4}, "1000100010001", 0, "0001", ""},
		{jobs.PauseOn{Failures: 50, Of: 4}, "10001000110", 10, "0", "2 of the last 4 attempts failed; pause_on: {failures: 50%, of: 4}"},
		{jobs.PauseOn{Failures: 50, Of: 3}, "1001", 0, "001", ""},
		{jobs.PauseOn{Failures: 50, Of: 3}, "10011", 5, "", "2 of the last 3 attempts failed; pause_on: {failures: 50%, of: 3}"},
		{jobs.PauseOn{Failures: 100, Of: 3}, "110111", 6, "", "3 of the last 3 attempts failed; pause_on: {failures: 100%, of: 3}"},
		{jobs.PauseOn{Failures: 1, Of: 3}, "001", 3, "", "1 of the last 3 attempts failed; pause_on: {failures: 1%, of: 3}"},
		{jobs.PauseOn{Failures: 1, Of: 1}, "0000", 0, "0", ""},
		{jobs.PauseOn{Failures: 50, Of: 4}, "1001", 4, "", "2 of the last 4 attempts failed; pause_on: {failures: 50%, of: 4}"},
	} {
		w, at, why := PauseWindow(""), 0, ""
		for i, end := range c.ends {
			var is string
			if w, is = w.Add(c.p, []bool{end == '1'}); is != "" {
				at, why = i+1, is
			}
		}
		if at != c.at || why != c.means || string(w) != c.left {
			t.Errorf("%+v: paused at %d: %q, and left %q", c, at, why, w)
		}
		var all []bool
		for _, end := range c.ends {
			all = append(all, end == '1')
		}
		if _, is := PauseWindow("").Add(c.p, all); is != c.means {
			t.Errorf("%+v at once: %q", c, is)
		}
	}
	long, why := PauseWindow("").Add(jobs.PauseOn{Failures: 50, Of: 1000}, make([]bool, 5000))
	if len(long) != 1000 || why != "" {
		t.Errorf("%d, %q", len(long), why)
	}
	if w, _ := PauseWindow(strings.Repeat("1", 100)).Add(jobs.PauseOn{Failures: 100, Of: 3}, []bool{false}); w != "110" {
		t.Errorf("after a change of the setting: %q", w)
	}
}
