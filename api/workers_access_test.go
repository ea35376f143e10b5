//go:build !fuzz

package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A token of a worker takes tasks of its pools alone, and ends those of its own sessions alone: what it knows of others does not help.
func TestWorkersOfOtherTokens(t *testing.T) {
	secrets := map[string]string{}
	var list []api.Token
	for name, pools := range map[string][]string{"mailer": {"mail", "one"}, "other": {"mail"}, "short": {"short"}} {
		secret, token := api.NewToken(name, api.Worker, time.Time{})
		token.Pools = pools
		secrets[name], list = secret, append(list, token)
	}
	secret, token := api.NewToken("operator", api.Operator, time.Time{})
	secrets["operator"], list = secret, append(list, token)
	secret, token = api.NewToken("admin", api.Admin, time.Time{})
	secrets["admin"], list = secret, append(list, token)
	tokens := api.NewTokens(list...)
	o := openOffice(t, 1, 10*time.Second, api.Options{Access: tokens})
	as := func(name string) *office { of := *o; of.token = secrets[name]; return &of }

	id := o.enqueue(jobs.NewTask{Pool: "mail"})
	c := as("mailer").one("mail")
	if c.id != id {
		t.Fatalf("claimed %+v", c)
	}
	refusals := []struct {
		who, method, path string
		body              any
		status            int
	}{
		{"short", "POST", "pools/mail/claim", map[string]any{}, 403},
		{"operator", "POST", "pools/mail/claim", map[string]any{}, 403},
		{"other", "POST", "pools/mail/claim", map[string]any{"session": c.session, "have": []string{}}, 404},
		{"admin", "POST", "pools/mail/claim", map[string]any{"session": c.session, "have": []string{}}, 404},
		{"mailer", "POST", "pools/one/claim", map[string]any{"session": c.session}, 422},
		{"mailer", "GET", "tasks/" + id, nil, 403},
		{"mailer", "GET", "workers", nil, 403},
		{"mailer", "GET", "pools", nil, 403},
		{"mailer", "POST", "pools/mail/tasks", map[string]any{}, 403},
		{"mailer", "POST", "tasks/" + id + "/cancel", map[string]any{}, 403},
		{"operator", "DELETE", "workers/" + c.session, map[string]any{}, 403},
		{"other", "DELETE", "workers/" + c.session, map[string]any{}, 404},
	}
	for _, how := range []string{"heartbeat", "complete", "fail"} {
		for _, who := range []string{"other", "short", "admin"} {
			refusals = append(refusals, struct {
				who, method, path string
				body              any
				status            int
			}{who, "POST", "tasks/" + id + "/" + how, c.body(nil), 404})
		}
	}
	for _, r := range refusals {
		if status, answer := as(r.who).call(0, r.method, r.path, r.body); status != r.status {
			t.Errorf("%s: %s %s: %d %v, want %d", r.who, r.method, r.path, status, answer, r.status)
		}
	}
	// A session of its own does not help either: the task is not of that session.
	session, _ := as("other").claim(0, "mail", "", map[string]any{"wait": "0s"})
	stolen := c
	stolen.session = session
	as("other").end(stolen, "complete", nil, 409, "stale_token")
	if got := o.state(id); got != "running  attempt 1 of 1" {
		t.Fatal(got)
	}

	// A pool that is taken from the token is out of reach at once, with the sessions in it.
	tokens.Replace(slices.Collect(func(yield func(api.Token) bool) {
		for _, token := range list {
			if token.Name == "mailer" {
				token.Pools = []string{"one"}
			}
			if !yield(token) {
				return
			}
		}
	}))
	as("mailer").end(c, "complete", nil, 404, "not_found")
	tokens.Replace(list)
	as("mailer").end(c, "complete", nil, 200, "")

	_, workers := as("operator").call(0, "GET", "workers", nil)
	if text := strings.Join(strings.Fields(strings.ReplaceAll(mustJSON(t, workers), c.session, "SESSION")), ""); strings.Contains(text, "SESSION") || !strings.Contains(text, `"token":"mailer"`) {
		t.Errorf("workers %s", text)
	}
}
