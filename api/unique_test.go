//go:build !fuzz

package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestUnique: a unique task is 201 when it is new, 200 with the task that exists, or 409; one that is replaced wakes the replica.
func TestUnique(t *testing.T) {
	t.Parallel()
	h, replica := overSQLite(t)
	const pool = "/api/v1/pools/mail/tasks"
	post := func(body string, status int, woken bool) []jobs.Enqueued {
		t.Helper()
		replica.changes = nil
		w := ask(t, h, "POST", pool, body)
		if w.Code != status || slices.Contains(replica.changes, "wake [mail]") != woken {
			t.Fatalf("%s: %d %s, %v", body, w.Code, w.Body, replica.changes)
		}
		var got struct{ Items []jobs.Enqueued }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got.Items
	}
	first := post(`{"payload":{"user":7,"n":1},"kind":"welcome","unique":{"by":["kind","payload.user"],"for":"1d12h","while":"pending"}}`, 201, true)[0]
	kept := post(`{"payload":{"user":7,"n":2},"kind":"welcome","unique":{"by":["payload.user","kind"],"on_conflict":"keep"}}`, 200, false)[0]
	if !kept.Existed || kept.ID != first.ID || string(kept.Payload) != `{"user":7,"n":1}` {
		t.Errorf("%+v", kept)
	}
	replaced := post(`{"payload":{"user":7,"n":3},"kind":"welcome","priority":3,"unique":{"by":["kind","payload.user"],"on_conflict":"replace"}}`, 200, true)[0]
	if !replaced.Existed || replaced.ID != first.ID || string(replaced.Payload) != `{"user":7,"n":3}` || replaced.Priority != 3 || replaced.Token != 1 {
		t.Errorf("%+v", replaced)
	}
	w := ask(t, h, "POST", pool, `[{"kind":"bye"},{"payload":{"user":7},"kind":"welcome","unique":{"by":["kind","payload.user"],"on_conflict":"reject"}}]`)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `"code":"conflict"`) || !strings.Contains(w.Body.String(), first.ID) {
		t.Errorf("rejected: %d %s", w.Code, w.Body)
	}
	list := post(`[{"payload":{"user":7},"kind":"welcome","unique":{"by":["kind","payload.user"]}},{"kind":"bye","unique":{}},{"kind":"bye","unique":{}},{"kind":"bye","unique":null},{"kind":"bye"}]`, 201, true)
	var existed []bool
	for _, e := range list {
		existed = append(existed, e.Existed)
	}
	if !slices.Equal(existed, []bool{true, false, true, false, false}) || list[1].ID != list[2].ID || list[0].ID != first.ID {
		t.Errorf("%v", existed)
	}
}

// TestUniqueRefused: what is wrong with unique is named by its path.
func TestUniqueRefused(t *testing.T) {
	for _, c := range []struct {
		unique      string
		status      int
		field, says string
	}{
		{unique: `7`, status: 400, field: "unique", says: "must be a JSON object"},
		{unique: `{"by":"kind"}`, status: 400, field: "unique.by", says: "must be a list of texts"},
		{unique: `{"by":[7]}`, status: 400, field: "unique.by", says: "must be a list of texts"},
		{unique: `{"by":[]}`, status: 422, field: "unique.by", says: "names nothing"},
		{unique: `{"by":["kind","user"]}`, status: 422, field: "unique.by[1]", says: "use kind, key, payload, or a field as in payload.user"},
		{unique: `{"by":["kind","kind"]}`, status: 422, field: "unique.by[1]", says: "stands twice"},
		{unique: `{"for":600}`, status: 400, field: "unique.for", says: "must be a text such as"},
		{unique: `{"for":"600"}`, status: 400, field: "unique.for", says: "did you mean 600s?"},
		{unique: `{"for":"0.1ms"}`, status: 422, field: "unique.for", says: "at least 1ms"},
		{unique: `{"while":"running"}`, status: 422, field: "unique.while", says: "use pending or open"},
		{unique: `{"on_conflict":"drop"}`, status: 422, field: "unique.on_conflict", says: "use keep or replace or reject"},
		{unique: `{"until":"1s"}`, status: 400, field: "unique.until", says: "unknown key"},
		{unique: `{"for":"1s","for":"2s"}`, status: 400, field: "unique.for", says: "given twice"},
	} {
		for list, within := range map[string]string{`{"unique":` + c.unique + `}`: "", `[{},{"unique":` + c.unique + `}]`: "[1]."} {
			b := newBackend()
			w := ask(t, b.api(Options{}), "POST", "/api/v1/pools/mail/tasks", list)
			var got struct {
				Error struct{ Message, Field string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != c.status || got.Error.Field != within+c.field || !strings.Contains(got.Error.Message, c.says) || len(b.changes) > 0 {
				t.Errorf("%s: %d %s, %v", list, w.Code, w.Body, err)
			}
		}
	}
}
