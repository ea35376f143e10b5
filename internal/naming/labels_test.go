package naming

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

func TestLabelProblems(t *testing.T) {
	many := map[string]string{}
	for i := range limits.Labels + 1 {
		many[strconv.Itoa(i)] = ""
	}
	for want, labels := range map[string]map[string]string{
		"":                                    {"zone": "a", "empty": "", "long": strings.Repeat("x", 255)},
		": 65 labels, at most 64 are allowed": many,
		`.a b: "a b" is not a name; use letters, digits and . _ -, a letter or digit first, at most 64|.zone: must be at most 255 bytes of printable text`: {"zone": "\n", "a b": "x"},
		".: is missing|.a: must be at most 255 bytes of printable text":                                                                                    {"": "x", "a": strings.Repeat("x", 256)},
	} {
		var got []string
		for path, problem := range LabelProblems(labels) {
			got = append(got, path+": "+problem)
		}
		if d := cmp.Diff(want, strings.Join(got, "|")); d != "" {
			t.Error(d)
		}
		for range LabelProblems(labels) {
			break // and no more is yielded
		}
	}
}
