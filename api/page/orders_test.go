package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestOrders: the page of a job has its open orders, with how far they have come and what they wait for; who may, cancels them there, and what has ended is gone.
func TestOrders(t *testing.T) {
	t.Parallel()
	secrets := map[api.Role]string{}
	var tokens []api.Token
	for _, role := range []api.Role{api.Viewer, api.Operator} {
		secret, token := api.NewToken("my-"+string(role), role, time.Now().Add(time.Hour))
		secrets[role], tokens = secret, append(tokens, token)
	}
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{
		"import": {Schedule: "@daily", Timezone: "UTC", Suspend: true, Handler: does(fine)},
	}}, api.Options{Access: api.NewTokens(tokens...)})
	see := func(role api.Role) *tab {
		t.Helper()
		b := newTab(t, 1280)
		b.navigate(s.url)
		b.until("there is a form", `document.querySelector("#token")`)
		eval[bool](b, `(() => { document.querySelector("#token").value = `+quote(secrets[role])+`; document.querySelector("form button").click(); return true; })()`)
		b.says("#sum", "1 job")
		b.navigate(s.url + "jobs/import")
		b.says("#facts", "@daily")
		return b
	}
	viewer, operator := see(api.Viewer), see(api.Operator)
	operator.until("without orders there is no list", `document.querySelector("#orders").hidden`)

	run, err := s.replica.RunJobAt(t.Context(), "import", jobs.NewRun{By: "ann"}, time.Now().Add(3*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(24 * time.Hour)
	fill, err := s.replica.Backfill(t.Context(), "import", "bob", wire.NewBackfill{From: now.AddDate(0, 0, -9), To: now, Rate: jobs.Rate{Count: 4, Per: 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*tab{viewer, operator} {
		b.says("#orders", "run")
		b.says("#orders", "by ann")
		b.says("#orders", "in 3 h")
		b.says("#orders", "backfill")
		b.says("#orders", "by bob")
		b.says("#orders", "of 9 made")
		b.says("#orders", "its runs are made no faster than 4/d") // what the backfill waits for
	}
	if text := operator.text("#orders"); strings.Contains(text, "its time comes") {
		t.Errorf("when the run starts is said twice: %s", text)
	}
	if n := eval[int](viewer, `document.querySelectorAll("#orders button").length`); n != 0 {
		t.Errorf("a viewer is offered %d cancellations", n)
	}
	operator.until("both may be cancelled", `document.querySelectorAll("#orders button").length === 2`)

	const first = "#orders tbody tr:first-child button"
	state := func(o wire.Order) wire.OrderState {
		t.Helper()
		got, err := s.store.Sides().API.Order(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got.State
	}
	operator.click(first)
	operator.says(first, "Cancel the order")
	if got := state(fill); got != wire.OrderOpen {
		t.Errorf("after one press the order is %s", got)
	}
	operator.click(first)
	await.Until(t, "the order is cancelled", func() bool { return state(fill) == wire.OrderCancelled })
	operator.until("it is gone", `!document.querySelector("#orders").innerText.includes("backfill")`)
	if got := state(run); got != wire.OrderOpen || !strings.Contains(operator.text("#orders"), "by ann") {
		t.Errorf("the other order is %s", got)
	}
}
