package judge

import (
	"strings"
	"testing"
	"time"
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
