//go:build !fuzz

package api

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestTaskDetailsOverSQLite: tasks are listed by kind, key, tag and time, and wrong parameters are named.
func TestTaskDetailsOverSQLite(t *testing.T) {
	t.Parallel()
	h, _ := overSQLiteStore(t)
	ask(t, h, "POST", "/api/v1/pools/mail/tasks", `[{"kind":"welcome","key":"a","tags":["x y"]},{"key":"b"},{"kind":"welcome","key":"b","tags":["z"]}]`)
	for _, test := range []struct {
		query string
		want  int
	}{
		{"kind=welcome", 2}, {"key=b", 2}, {"key=b&kind=welcome", 1}, {"tag=x+y", 1}, {"tag=x", 0}, {"since=2020-01-01T00:00:00Z", 3}, {"until=2020-01-01T00:00:00Z", 0}, {"pool=mail&state=pending&tag=z", 1},
	} {
		w := ask(t, h, "GET", "/api/v1/tasks?"+test.query, "")
		if got := decode[wire.List[jobs.Task]](t, w.Body.String()).Items; w.Code != 200 || len(got) != test.want {
			t.Errorf("%s: %d, %d tasks, want %d", test.query, w.Code, len(got), test.want)
		}
	}
	for query, field := range map[string]string{
		"kind=a%20b": "kind", "key=a%0a": "key", "tag=%00": "tag", "since=yesterday": "since", "until=7d": "until", "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z": "until",
	} {
		w := ask(t, h, "GET", "/api/v1/tasks?"+query, "")
		if got := decode[struct{ Error wire.Problem }](t, w.Body.String()); w.Code != 400 || got.Error.Field != field {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
