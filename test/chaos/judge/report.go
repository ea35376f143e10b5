package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Report is the result of a run.
type Report struct {
	Run        history.Run
	Violations []Violation

	Triggers int            // rows of the ledger that schedules made
	Outcomes map[string]int // of all rows of the ledger; "open" if it has none
	Tasks    int            // acknowledged to clients
	Asks     map[string]int // by "what answer"
	Starts   int            // of attempts, as handlers saw them
	Overlaps int            // of attempts that forbid excludes, in time in which they could not be stopped
	Longest  time.Duration  // the longest of those
	Execs    map[string]int // runs of "locks exec", by how they ended

	Healthy Lateness
	Faulty  Lateness
	Windows []WindowReport
}

// Violation is a promise that did not hold.
type Violation struct {
	Invariant Invariant
	Subject   string // job, task, replica, file
	Text      string
	At        time.Time // zero: at no time in particular
	Window    string    // the faults that were open then
}

func (v Violation) String() string {
	text := fmt.Sprintf("%s %s: %s", v.Invariant, v.Subject, v.Text)
	if !v.At.IsZero() {
		text += ", at " + v.At.UTC().Format("15:04:05.000")
	}
	if v.Window != "" {
		text += ", during " + v.Window
	}
	return text
}

// WindowReport is one fault.
type WindowReport struct {
	Name     string // nemesis, or both of a pair
	Replicas []string
	Began    time.Time
	Lasted   time.Duration
	Applied  bool
	Evidence string
	Lost     int           // attempts that ended as lost, until it had recovered
	Missed   int           // due times
	Timed    int           // triggers with a known lateness: none while the database's clock is off
	Latest   time.Duration // lateness of the latest of them
	Recovery time.Duration // from healed until ready and on time again
}

// OK reports whether every promise held.
func (r Report) OK() bool { return len(r.Violations) == 0 }

// busy is how many times its processors the load of a machine may be before it is to blame, too.
const busy = 2

// taken is the part of the processors' time that others may have in one window before a report mentions it.
const taken = 0.1

// shown is how many violations of one invariant are printed.
const shown = 10

// String is the report as text, with a line break at its end.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d, %s", cell(r), r.Run.Seed, r.Run.Ended.Sub(r.Run.Began).Round(time.Second))
	if r.Run.Commit != "" {
		fmt.Fprintf(&b, ", commit %s", r.Run.Commit)
	}
	if r.Run.Bug != "" {
		fmt.Fprintf(&b, ", with bug %s", r.Run.Bug)
	}
	fmt.Fprintf(&b, "\n  triggers of schedules %d; of all, %s\n", r.Triggers, counts(r.Outcomes))
	fmt.Fprintf(&b, "  tasks %d, starts %d, asks: %s\n", r.Tasks, r.Starts, counts(r.Asks))
	fmt.Fprintf(&b, "  lateness healthy %v; faulty %v\n", r.Healthy, r.Faulty)
	if len(r.Execs) > 0 {
		fmt.Fprintf(&b, "  locks exec: %s\n", counts(r.Execs))
	}
	if r.Overlaps > 0 {
		fmt.Fprintf(&b, "  %d overlaps while the older attempt could not be ended, the longest %v\n", r.Overlaps, ms(r.Longest))
	}
	for _, w := range r.Windows {
		applied := "applied"
		if !w.Applied {
			applied = "NOT APPLIED"
		}
		fmt.Fprintf(&b, "  %s %-36s %-10s %s for %v: lost %d, missed %d, latest %v, recovered after %v (%s)\n",
			w.Began.UTC().Format("15:04:05.000"), w.Name, strings.Join(w.Replicas, ","), applied, ms(w.Lasted), w.Lost, w.Missed,
			ms(w.Latest), ms(w.Recovery), w.Evidence)
	}
	if r.OK() {
		b.WriteString("  no violations\n")
		return b.String()
	}
	fmt.Fprintf(&b, "  %d violations\n", len(r.Violations))
	if r.Run.Cores > 0 && r.Run.Load > float64(busy*r.Run.Cores) {
		fmt.Fprintf(&b, "  the machine was busy: its load was up to %.1f, with %d processors; -slack (now %v) allows everything to be later\n", r.Run.Load, r.Run.Cores, r.Run.Slack)
	}
	if r.Run.StolenMost > taken {
		fmt.Fprintf(&b, "  the machine was not its own: others on the same hardware took %.0f %% of the processors' time, %.0f %% in the worst window\n", 100*r.Run.Stolen, 100*r.Run.StolenMost)
	}
	printed := map[Invariant]int{}
	for _, v := range r.Violations {
		if printed[v.Invariant]++; printed[v.Invariant] <= shown {
			fmt.Fprintf(&b, "    %v\n", v)
		}
	}
	for _, i := range Invariants {
		if more := printed[i] - shown; more > 0 {
			fmt.Fprintf(&b, "    and %d more of %s\n", more, i)
		}
	}
	return b.String()
}

// Broken are the invariants that did not hold.
func (r Report) Broken() []Invariant {
	var all []Invariant
	for _, v := range r.Violations {
		all = append(all, v.Invariant)
	}
	return slices.Compact(all)
}

func counts(n map[string]int) string {
	var parts []string
	for k, v := range n {
		parts = append(parts, fmt.Sprintf("%s %d", k, v))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
