package naming

import (
	"fmt"
	"iter"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

// LabelProblems yields what is wrong with the labels of a job or a replica, by key in order, each with its path below that
// of the labels: "." and the key, or empty for what is wrong with all of them.
func LabelProblems(labels map[string]string) iter.Seq2[string, string] {
	return func(yield func(path, problem string) bool) {
		if len(labels) > limits.Labels {
			yield("", fmt.Sprintf("%d labels, at most %d are allowed", len(labels), limits.Labels))
			return
		}
		keys := make([]string, 0, 8)
		for key := range labels {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if problem := Problem(key); problem != "" && !yield("."+key, problem) {
				return
			}
			if value := labels[key]; (len(value) > 255 || !Printable(value)) && !yield("."+key, "must be at most 255 bytes of printable text") {
				return
			}
		}
	}
}
