package lockstest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// stuckShown is how many operations are shown before and after the place where a search ended.
const stuckShown = 12

// stuck is where the search ended: for each key without an order, the end of the longest part that
// has one, and what should have followed, beginning with what was answered first.
func stuck(m porcupine.NondeterministicModel, ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	partOf := map[porcupine.Operation]int{}
	for i, part := range m.Partition(ops) {
		for _, op := range part {
			partOf[op] = i
		}
	}
	var b strings.Builder
	for _, parts := range info.PartialLinearizationsOperations() {
		if len(parts) == 0 {
			continue
		}
		longest := slices.MaxFunc(parts, func(a, b []porcupine.Operation) int { return cmp.Compare(len(a), len(b)) })
		if len(longest) == 0 {
			continue
		}
		part, placed := partOf[longest[0]], map[porcupine.Operation]bool{}
		for _, op := range longest {
			placed[op] = true
		}
		var rest []porcupine.Operation
		for _, op := range ops {
			if partOf[op] == part && !placed[op] {
				rest = append(rest, op)
			}
		}
		if len(rest) == 0 {
			continue
		}
		slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		fmt.Fprintf(&b, "key %d:\n", part)
		for _, op := range longest[max(0, len(longest)-stuckShown):] {
			fmt.Fprintf(&b, "  %s\n", describe(m, op))
		}
		b.WriteString("  then one of these should fit:\n")
		for _, op := range rest[:min(stuckShown, len(rest))] {
			fmt.Fprintf(&b, "  %s\n", describe(m, op))
		}
	}
	return b.String()
}

func describe(m porcupine.NondeterministicModel, op porcupine.Operation) string {
	until := "never"
	if op.Return != never {
		until = time.Duration(op.Return).String()
	}
	return fmt.Sprintf("%v to %s: %s", time.Duration(op.Call), until, m.DescribeOperation(op.Input, op.Output))
}
