package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// A report has the slack of its run.
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

// Latest triggers stand by store, and not at all if no lateness is known; versions stand once.
func TestTables(t *testing.T) {
	report := func(cell string, versions map[string]string, windows ...WindowReport) Report {
		return Report{Run: history.Run{Cell: cell, Commit: "c0ffee", Machine: "2 cores", Versions: versions}, Windows: windows}
	}
	table := Tables([]Report{
		report("mariadb+zookeeper", map[string]string{"go": "go1", "zookeeper": "3.8.0-${commit.id}, built today"},
			WindowReport{Name: "kill-group", Applied: true, Timed: 3, Latest: 699600 * time.Microsecond, Lost: 1},
			WindowReport{Name: "mariadb-clock+1h", Applied: true, Recovery: 2 * time.Second}),
		report("sqlite+sqlite", map[string]string{"go": "go1", "sqlite": "3"},
			WindowReport{Name: "kill-group", Applied: true, Timed: 1, Latest: 2 * time.Second, Lost: 2}),
	})
	for _, line := range []string{
		"Commit `c0ffee`, 2 cores; go go1, sqlite 3, zookeeper 3.8.0.\n\n",
		"| fault | applied | attempts lost | due times missed | latest trigger: mariadb | sqlite | recovery at most |\n|---|---|---|---|---|---|---|\n",
		"| kill-group | 2 of 2 | 3 | 0 | 700 ms | 2.0 s | 0 ms |\n",
		"| mariadb-clock+1h | 1 of 1 | 0 | 0 | – | – | 2.0 s |\n",
	} {
		if !strings.Contains(table, line) {
			t.Errorf("no line %q in\n%s", line, table)
		}
	}
}

// A run that failed says so if others took the processors, and the tables say it of all.
func TestAMachineThatIsShared(t *testing.T) {
	report := func(stolen, most float64, failed bool) Report {
		r := Report{Run: history.Run{Cores: 2, Stolen: stolen, StolenMost: most}}
		if failed {
			r.Violations = []Violation{{Invariant: OnTime, Text: "late"}}
		}
		return r
	}
	line := "  the machine was not its own: others on the same hardware took 3 % of the processors' time, 41 % in the worst window\n"
	for _, c := range []struct {
		most   float64
		failed bool
		want   bool
	}{{0.41, true, true}, {0.41, false, false}, {0.1, true, false}} {
		if got := report(0.03, c.most, c.failed).String(); strings.Contains(got, line) != c.want {
			t.Errorf("%+v:\n%s", c, got)
		}
	}
	const of = "Other machines on the same hardware took up to 5 % of the processors' time during a run, and 41 % in the worst window.\n"
	if got := Tables([]Report{report(0.05, 0.1, false), report(0.03, 0.41, true)}); !strings.Contains(got, of) {
		t.Error(got)
	}
	if got := Tables([]Report{report(0, 0, false)}); strings.Contains(got, "hardware") {
		t.Error(got)
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
