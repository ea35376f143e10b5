package api

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestTasksWhoseLocksHaveNoKey: a payload from which no key of the pool's locks can be made is refused where it is given, and nothing is written.
func TestTasksWhoseLocksHaveNoKey(t *testing.T) {
	const enqueue, update = "/api/v1/pools/mail/tasks", "/api/v1/tasks/task-1"
	const says = `key \"tenant-{{.payload.tenant}}\": the payload has no tenant; correct the payload: the task needs the key of each lock`
	for _, c := range []struct {
		target, body, field string // "": it is taken
	}{
		{enqueue, `{"payload":{"tenant":"a"}}`, ""},
		{enqueue, `{"payload":{"tennant":"a"}}`, "payload"},
		{enqueue, `{}`, "payload"},
		{enqueue, `{"force":true}`, ""},
		{enqueue, `[{"payload":{"tenant":"a"}},{"payload":null}]`, "[1].payload"},
		{enqueue, `[{}]`, "[0].payload"},
		{update, `{"payload":{"tenant":"b"}}`, ""},
		{update, `{"payload":{}}`, "payload"},
		{update, `{"priority":1}`, ""},
		{"/api/v1/tasks/nope", `{"payload":{}}`, "-"},
	} {
		b := newBackend()
		mail := b.set.Pools["mail"]
		mail.Locks = []jobs.Lock{{Key: "relay"}, {Key: "tenant-{{.payload.tenant}}"}}
		b.set.Pools["mail"] = mail
		method := "POST"
		if c.target != enqueue {
			method = "PATCH"
		}
		w := ask(t, b.api(Options{}), method, c.target, c.body)
		answer := w.Body.String()
		switch {
		case c.field == "-":
			if w.Code != 404 {
				t.Errorf("%s %s: %d %s", c.target, c.body, w.Code, answer)
			}
		case c.field == "":
			if w.Code >= 300 || len(b.changes) == 0 {
				t.Errorf("%s %s: %d %s", c.target, c.body, w.Code, answer)
			}
		case w.Code != 422 || !strings.Contains(answer, `"field":"`+c.field+`"`) || !strings.Contains(answer, says) || len(b.changes) > 0:
			t.Errorf("%s %s: %d %s, %q", c.target, c.body, w.Code, answer, b.changes)
		}
	}
}
