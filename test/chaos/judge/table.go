package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tables are the reports of several runs in Markdown: what was run on what, a line for each run and
// a line for each kind of fault.
func Tables(reports []Report) string {
	var b strings.Builder
	b.WriteString(conditions(reports))
	b.WriteString("\n| cell | seed | triggers | tasks | faults | violations | lateness healthy p50 / p99 | under faults p50 / p99 | recovery at most |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range reports {
		applied, recovery := 0, time.Duration(0)
		for _, w := range r.Windows {
			if w.Applied {
				applied++
				recovery = max(recovery, w.Recovery)
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d of %d | %s | %s / %s | %s / %s | %s |\n", cell(r), r.Run.Seed, r.Triggers, r.Tasks, applied, len(r.Windows),
			violations(r), short(r.Healthy.P50), short(r.Healthy.P99), short(r.Faulty.P50), short(r.Faulty.P99), short(recovery))
	}
	b.WriteString("\n| fault | applied | attempts lost | due times missed | latest trigger | recovery at most |\n|---|---|---|---|---|---|\n")
	for _, n := range nemeses(reports) {
		fmt.Fprintf(&b, "| %s | %d of %d | %d | %d | %s | %s |\n", n.name, n.applied, n.tried, n.lost, n.missed, short(n.latest), short(n.recovery))
	}
	return b.String()
}

// conditions say where and with what the runs were made, once if it is the same for all.
func conditions(reports []Report) string {
	var lines []string
	for _, r := range reports {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(r.Run.Versions)) {
			parts = append(parts, k+" "+r.Run.Versions[k])
		}
		line := fmt.Sprintf("Commit `%s`, %s", cmp.Or(r.Run.Commit, "unknown"), cmp.Or(r.Run.Machine, "unknown machine"))
		if len(parts) > 0 {
			line += "; " + strings.Join(parts, ", ")
		}
		if r.Run.Bug != "" {
			line += "; with the seeded bug " + r.Run.Bug
		}
		if line += ".\n"; !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// cell is what ran, and what was allowed it beyond what was promised: such figures are not those of others.
func cell(r Report) string {
	if r.Run.Slack == 0 {
		return r.Run.Cell
	}
	return r.Run.Cell + ", slack " + strconv.FormatFloat(r.Run.Slack.Seconds(), 'f', -1, 64) + " s"
}

func violations(r Report) string {
	if r.OK() {
		return "0"
	}
	var names []string
	for _, i := range r.Broken() {
		names = append(names, string(i))
	}
	return fmt.Sprintf("**%d** (%s)", len(r.Violations), strings.Join(names, ", "))
}

// nemesis is all windows of one name.
type nemesis struct {
	name                         string
	tried, applied, lost, missed int
	latest, recovery             time.Duration
}

func nemeses(reports []Report) []*nemesis {
	by := map[string]*nemesis{}
	for _, r := range reports {
		for _, w := range r.Windows {
			n := by[w.Name]
			if n == nil {
				n = &nemesis{name: w.Name}
				by[w.Name] = n
			}
			n.tried++
			if !w.Applied {
				continue
			}
			n.applied++
			n.lost += w.Lost
			n.missed += w.Missed
			n.latest, n.recovery = max(n.latest, w.Latest), max(n.recovery, w.Recovery)
		}
	}
	return slices.SortedFunc(maps.Values(by), func(a, b *nemesis) int {
		return cmp.Or(cmp.Compare(strings.Count(a.name, " + "), strings.Count(b.name, " + ")), cmp.Compare(a.name, b.name))
	})
}

// short is a duration as people read it in a table.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
