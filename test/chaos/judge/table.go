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
	columns := stores(reports)
	fmt.Fprintf(&b, "\n| fault | applied | attempts lost | due times missed | latest trigger: %s | recovery at most |\n|---|---|---|---|%s---|\n",
		strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, n := range nemeses(reports) {
		fmt.Fprintf(&b, "| %s | %d of %d | %d | %d |", n.name, n.applied, n.tried, n.lost, n.missed)
		for _, column := range columns {
			latest := "–"
			if late, timed := n.latest[column]; timed {
				latest = short(late)
			}
			fmt.Fprintf(&b, " %s |", latest)
		}
		fmt.Fprintf(&b, " %s |\n", short(n.recovery))
	}
	return b.String()
}

// conditions say where and with what the runs were made, once for all of one source and machine.
func conditions(reports []Report) string {
	var made []string
	versions := map[string][]string{}
	for _, r := range reports {
		line := fmt.Sprintf("Commit `%s`, %s", cmp.Or(r.Run.Commit, "unknown"), cmp.Or(r.Run.Machine, "unknown machine"))
		if r.Run.Bug != "" {
			line += ", with the seeded bug " + r.Run.Bug
		}
		if !slices.Contains(made, line) {
			made = append(made, line)
		}
		for what, version := range r.Run.Versions {
			if text := what + " " + number(version); !slices.Contains(versions[line], text) {
				versions[line] = append(versions[line], text)
			}
		}
	}
	var b strings.Builder
	for _, line := range made {
		b.WriteString(line)
		if all := versions[line]; len(all) > 0 {
			b.WriteString("; " + strings.Join(slices.Sorted(slices.Values(all)), ", "))
		}
		b.WriteString(".\n")
	}
	var stolen, most float64
	for _, r := range reports {
		stolen, most = max(stolen, r.Run.Stolen), max(most, r.Run.StolenMost)
	}
	if most > 0 {
		fmt.Fprintf(&b, "Other machines on the same hardware took up to %.0f %% of the processors' time during a run, and %.0f %% in the worst window.\n", 100*stolen, 100*most)
	}
	return b.String()
}

// number is a version without the suffix of its packagers.
func number(version string) string {
	version, _, _ = strings.Cut(version, ",")
	version, _, _ = strings.Cut(version, "-${") // ZooKeeper's package: an unset variable
	return version
}

// stores are the stores of the cells of the reports.
func stores(reports []Report) []string {
	var all []string
	for _, r := range reports {
		if s := store(r); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return all
}

func store(r Report) string {
	s, _, _ := strings.Cut(r.Run.Cell, "+")
	return s
}

// cell is the cell, and the slack that it was allowed: such figures are not comparable with others.
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
	latest                       map[string]time.Duration // by store, if it is known
	recovery                     time.Duration
}

func nemeses(reports []Report) []*nemesis {
	by := map[string]*nemesis{}
	for _, r := range reports {
		for _, w := range r.Windows {
			n := by[w.Name]
			if n == nil {
				n = &nemesis{name: w.Name, latest: map[string]time.Duration{}}
				by[w.Name] = n
			}
			n.tried++
			if !w.Applied {
				continue
			}
			n.applied++
			n.lost += w.Lost
			n.missed += w.Missed
			n.recovery = max(n.recovery, w.Recovery)
			if w.Timed > 0 {
				n.latest[store(r)] = max(n.latest[store(r)], w.Latest)
			}
		}
	}
	return slices.SortedFunc(maps.Values(by), func(a, b *nemesis) int {
		return cmp.Or(cmp.Compare(strings.Count(a.name, " + "), strings.Count(b.name, " + ")), cmp.Compare(a.name, b.name))
	})
}

// short is a duration as a table shows it.
func short(d time.Duration) string {
	if d = ms(d); d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
