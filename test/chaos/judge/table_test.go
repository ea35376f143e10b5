package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Whoever reads a report sees how much later things were allowed to be.
func TestSlackIsShown(t *testing.T) {
	for slack, want := range map[time.Duration]string{
		0:                      "mariadb+redis",
		3 * time.Second:        "mariadb+redis, slack 3 s",
		90 * time.Second:       "mariadb+redis, slack 90 s",
		500 * time.Millisecond: "mariadb+redis, slack 0.5 s",
	} {
		h := clean(1)
		h.Run.Cell, h.Run.Slack = "mariadb+redis", slack
		r := Judge(h)
		if first, _, _ := strings.Cut(r.String(), "\n"); !strings.HasPrefix(first, want+", seed ") {
			t.Errorf("%v: the report begins with %q", slack, first)
		}
		if table := Tables([]Report{r}); !strings.Contains(table, "\n| "+want+" | ") {
			t.Errorf("%v:\n%s", slack, table)
		}
	}
}

// A run that failed says so if the machine had more to do than it can; one that held does not care.
func TestABusyMachine(t *testing.T) {
	for _, c := range []struct {
		cores  int
		load   float64
		failed bool
		want   bool
	}{
		{2, 4.5, true, true},
		{2, 4.5, false, false},
		{2, 4, true, false},
		{0, 4.5, true, false}, // of an old run
	} {
		r := Report{Run: history.Run{Cores: c.cores, Load: c.load}}
		if c.failed {
			r.Violations = []Violation{{Invariant: OnTime, Text: "late"}}
		}
		line := "  the machine was busy: its load was up to 4.5, with 2 processors; -slack (now 0s) allows everything to be later\n"
		if strings.Contains(r.String(), line) != c.want {
			t.Errorf("%+v:\n%s", c, r)
		}
	}
}
