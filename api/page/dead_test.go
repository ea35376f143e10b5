package page_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// failing has a pool whose tasks fail with their payload as error, and a job that fails.
func failing() jobs.Set {
	fails := jobs.Func(func(_ context.Context, _ jobs.Task, text string) error { return errors.New(text) })
	return jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {Workers: 64, Retries: jobs.Retries{Limit: jobs.NoRetries}, Kinds: map[string]jobs.Handler{"letter": fails, "fax": fails}}},
		Jobs:  map[string]jobs.Job{"report": {Handler: does(func(context.Context, jobs.Task, io.Writer) error { return errors.New("no paper") })}},
	}
}

// fails enqueues tasks that fail with these errors, and waits until they have.
func (s *scene) fails(kind string, failures ...string) (ids []string) {
	s.t.Helper()
	for len(failures) > 0 {
		n := min(len(failures), 1000)
		var tasks []jobs.NewTask
		for _, text := range failures[:n] {
			tasks = append(tasks, jobs.NewTask{Pool: "mail", Kind: kind, Payload: text})
		}
		made, err := s.store.Enqueue(s.t.Context(), tasks...)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range made {
			ids = append(ids, m.Task.ID)
		}
		failures = failures[n:]
	}
	await.Until(s.t, "they have failed", func() bool { return s.count(jobs.StatePending, jobs.StateRunning) == 0 })
	return ids
}

// count is how many tasks of the pool are in these states.
func (s *scene) count(states ...jobs.State) (n int) {
	s.t.Helper()
	for _, state := range states {
		f := wire.TaskFilter{Pool: "mail", State: state, Page: wire.Page{Limit: 500}}
		for {
			rows, next, err := s.store.Tasks(s.t.Context(), f)
			if err != nil {
				s.t.Fatal(err)
			}
			n += len(rows)
			if f.Cursor = next; next == "" {
				break
			}
		}
	}
	return n
}

// press clicks the button with a text that begins so.
func (b *tab) press(text string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("#bulk button")].find((e) => e.textContent.startsWith(%s))`, quote(text))
	b.until("there is the button "+text, find)
	eval[bool](b, find+`.click(), true`)
}

// slow lets the clock of the page go on from two seconds ahead at a tenth of its speed: it loads its lists again because something has changed, at once
// and 9 s later, and not since 10 s have passed.
func (b *tab) slow() {
	b.t.Helper()
	eval[bool](b, `(() => { const at = Date.now() + 2000, from = performance.now(); Date.now = () => at + (performance.now() - from) / 10; return true; })()`)
}

// buttons are those of the section in which a group is changed.
func (b *tab) buttons() string {
	b.t.Helper()
	return eval[string](b, `[...document.querySelectorAll("#bulk button")].map((e) => e.textContent).join()`)
}

// TestDeadLetters: the page has the groups of what failed for good, with their numbers, reasons and times, and the tasks of each; both are
// live, and a link leads to each.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := newScene(t, failing(), api.Options{})
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.click(`a[href="dead-letters"]`)
	b.says("#headline", "Nothing has failed for good")
	b.says("#groups", "No task has failed for good, or all were retried.")
	eval[bool](b, "window.same = true") // gone after a reload

	ids := s.fails("letter", "user 1 not found\n  at line 7", "user 22 not found", "user 333 not found")
	b.says("#headline", "Tasks failed for good, in 1 group")
	b.says("#groups td[data-label=What]", "mail / letter")
	b.says("#groups td[data-label=Tasks]", "3")
	b.says("#groups td[data-label=Why]", "user 333 not found")
	b.says("#groups td[data-label=How]", "failed")
	first := b.text("#groups td[data-label=First]")
	if !strings.Contains(first, "now") && !strings.Contains(first, "ago") {
		t.Errorf("the first ended %q", first)
	}
	s.fails("fax", "line busy")
	s.run("report")
	b.says("#headline", "in 3 groups")
	b.until("the one that ended last is the first", `document.querySelector("#groups tbody tr").innerText.includes("report")`)
	b.says("#groups tbody tr", "in pool default")

	b.slow()
	b.click("#groups tbody tr:nth-child(3) a")
	b.says("#headline", "3 tasks failed for good in this way")
	b.says("#name", "Failed for good in mail")
	b.says("#facts", "letter")
	b.says("#facts", "user 333 not found")
	if eval[bool](b, `document.querySelector("#groups").offsetParent !== null`) {
		t.Error("beside a group there are the others")
	}
	if n := eval[int](b, `document.querySelectorAll("#tasks tbody tr").length`); n != 3 {
		t.Errorf("%d tasks in the group:\n%s", n, b.text("#tasks"))
	}
	b.says("#tasks", "1 of 1")
	b.click(`#tasks button[data-task="` + ids[0] + `"]`)
	b.says("#tasks .more", "at line 7")
	b.says("#tasks .more", "what failed in the same way")
	b.slow()
	s.fails("letter", "user 4444 not found")
	b.says("#headline", "4 tasks failed for good in this way")
	b.says("#tasks", "user 4444 not found")
	b.says("#tasks .more", "at line 7") // what was opened stays open
	at := eval[string](b, "location.href")

	b.click("#up a")
	b.says("#headline", "in 3 groups")
	eval[bool](b, "history.back(), true")
	b.says("#headline", "4 tasks failed for good in this way")
	if !eval[bool](b, "window.same") {
		t.Error("the page was loaded anew")
	}
	b.navigate("about:blank")
	b.navigate(at) // as others are sent it
	b.says("#headline", "4 tasks failed for good in this way")

	b.navigate("about:blank")
	b.navigate(s.url + "dead-letters#mail/0123456789abcdef")
	b.says("#headline", "None is left")
	b.says("#tasks", "No task of this group is left.")
	b.says("#facts", "0123456789abcdef")
	if got := b.buttons(); got != "" {
		t.Errorf("of a group that is empty the page offers %s", got)
	}
	b.navigate("about:blank")
	b.navigate(s.url + "dead-letters#nothing/0123456789abcdef")
	b.says("#headline", "there is no pool")
	b.navigate("about:blank")
	b.navigate(s.url + "dead-letters#<img src=x onerror=alert(1)>")
	b.says("#headline", "in 3 groups")
}

// TestRetryAGroup: the tasks of a group are counted first, and nothing is changed without a second click. Then those are retried that had
// ended when they were counted. By keyboard, the focus stays with the buttons.
func TestRetryAGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, failing(), api.Options{})
	ids := s.fails("letter", "user 1 not found", "user 22 not found")
	s.fails("fax", "line busy")
	b := newTab(t, 1280)
	b.navigate(s.url + "dead-letters")
	b.click(`#groups tbody tr:nth-child(2) a`)
	b.says("#headline", "2 tasks failed")
	b.press("Retry them …")
	b.says("#bulk", "2 tasks that ended by ")
	b.says("#bulk", " would be retried.")
	b.press("Cancel")
	b.until("it asks no more", `!document.querySelector("#bulk").innerText.includes("would be")`)
	if n := s.count(jobs.StateFailed); n != 3 {
		t.Fatalf("%d tasks have failed after a preview", n)
	}

	if err := s.store.Sides().API.PausePool(t.Context(), "mail", "test", new(true)); err != nil {
		t.Fatal(err)
	}
	eval[bool](b, `document.querySelector("#bulk button").focus(), true`)
	do(b, chromedp.KeyEvent("\r"))
	b.says("#bulk", "2 tasks that ended by ")
	if got := eval[string](b, "document.activeElement.textContent"); got != "Retry 2 tasks" {
		t.Errorf("the focus is on %q", got)
	}
	if err := s.store.Sides().API.PausePool(t.Context(), "mail", "test", new(false)); err != nil {
		t.Fatal(err)
	}
	later := s.fails("letter", "user 333 not found")
	if err := s.store.Sides().API.PausePool(t.Context(), "mail", "test", new(true)); err != nil {
		t.Fatal(err)
	}
	b.says("#headline", "3 tasks failed")
	do(b, chromedp.KeyEvent("\r"))
	b.says("#bulk", "2 tasks were retried.")
	b.says("#headline", "1 task failed for good in this way")
	for _, id := range ids {
		if task, _, err := s.store.Task(t.Context(), id); err != nil || task.RetriedAs == "" {
			t.Errorf("%s was not retried: %+v, %v", id, task, err)
		}
	}
	if task, _, err := s.store.Task(t.Context(), later[0]); err != nil || task.RetriedAs != "" {
		t.Errorf("what ended after the preview was retried: %+v, %v", task, err)
	}
	if n := s.count(jobs.StatePending); n != 2 {
		t.Errorf("%d tasks wait after the retry of two", n)
	}
	b.press("Retry them …")
	b.press("Retry 1 task")
	b.says("#bulk", "1 task was retried.")
	b.says("#headline", "None is left")
	b.until("nothing is offered", `document.querySelectorAll("#bulk button").length === 0`)

	// The tasks of jobs are skipped, and the page says why.
	s.run("report")
	b.click("#up a")
	b.says("#groups tbody tr", "report")
	b.click(`#groups tbody tr a`)
	b.says("#name", "in default")
	if got := b.text("#bulk"); strings.Contains(got, "retried") {
		t.Errorf("of another group: %s", got)
	}
	b.press("Retry them …")
	b.says("#bulk", "0 tasks that ended by ")
	b.says("#bulk", "Skipped: 1, such as ")
	b.says("#bulk", "is of a job")
	if got := b.buttons(); got != "Retry them …,Delete them …" {
		t.Error(got)
	}
}

// TestDeleteAGroup: an admin deletes the tasks of a group, after their count, and after a click on something else than what has the focus.
func TestDeleteAGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, failing(), api.Options{})
	s.fails("letter", "user 1 not found", "user 22 not found")
	s.fails("fax", "line busy")
	b := newTab(t, 1280)
	b.navigate(s.url + "dead-letters")
	b.click(`#groups tbody tr:nth-child(2) a`)
	b.until("it is offered", `document.querySelectorAll("#bulk button").length === 2`)
	eval[bool](b, `document.querySelectorAll("#bulk button")[1].focus(), true`)
	do(b, chromedp.KeyEvent("\r"))
	b.says("#bulk", " would be deleted.")
	if got := eval[string](b, "document.activeElement.textContent"); got != "Cancel" {
		t.Errorf("the focus is on %q", got)
	}
	if n := s.count(jobs.StateFailed); n != 3 {
		t.Fatalf("%d tasks are stored after a preview", n)
	}
	b.press("Delete 2 tasks")
	b.says("#bulk", "2 tasks were deleted.")
	b.says("#headline", "None is left")
	if n := s.count(jobs.StateFailed); n != 1 {
		t.Errorf("%d tasks are stored", n)
	}
	b.click("#up a")
	b.says("#headline", "in 1 group")
	b.says("#groups", "line busy")
}

// TestRolesOfThePage: the page offers what the role of its token may do, and a token of a worker shows nothing.
func TestRolesOfThePage(t *testing.T) {
	t.Parallel()
	secrets, list := map[api.Role]string{}, []api.Token{}
	for _, role := range api.Roles() {
		secret, token := api.NewToken(string(role), role, time.Time{})
		token.Pools = []string{"mail"}
		secrets[role], list = secret, append(list, token)
	}
	s := newScene(t, failing(), api.Options{Access: api.NewTokens(list...)})
	s.fails("letter", "user 1 not found")
	groups, _, err := s.store.DeadLetters(t.Context(), wire.DeadLetterFilter{Pool: "mail"})
	if err != nil || len(groups) != 1 {
		t.Fatalf("%+v, %v", groups, err)
	}
	enter := func(b *tab, role api.Role) {
		t.Helper()
		b.until("there is a form", `document.querySelector("#token")`)
		eval[bool](b, fmt.Sprintf(`(() => { document.querySelector("#token").value = %s; document.querySelector("form button").click(); return true; })()`, quote(secrets[role])))
	}
	for role, want := range map[api.Role]string{api.Viewer: "", api.Operator: "Retry them …", api.Admin: "Retry them …,Delete them …"} {
		b := newTab(t, 1280)
		b.navigate(s.url + "dead-letters#mail/" + groups[0].Fingerprint)
		enter(b, role)
		b.says("#headline", "1 task failed for good in this way")
		b.until("the role is known", `!document.querySelector("#bulk .soft").hidden || document.querySelector("#bulk button")`)
		if got := b.buttons(); got != want {
			t.Errorf("%s may %q, want %q", role, got, want)
		}
		if got := b.text("#bulk"); strings.Contains(got, "A token with the role operator") != (role == api.Viewer) {
			t.Errorf("%s: %s", role, got)
		}
	}
	for _, path := range []string{"", "dead-letters", "jobs/report"} {
		b := newTab(t, 1280)
		b.navigate(s.url + path)
		enter(b, api.Worker)
		b.says("form [role=alert]", "this needs the role viewer, and the token has the role worker")
		if text := b.text("body"); strings.Contains(text, "mail") || strings.Contains(text, "not found") || strings.Contains(text, "replica-1") {
			t.Errorf("a token of a worker shows at /%s:\n%s", path, text)
		}
		enter(b, api.Viewer)
		b.until("a viewer's shows more", `document.querySelector("#lists") && !document.querySelector("#lists").hidden`)
	}
}

// TestErrorsOfDeadLetters: an error of the server is shown until there is an answer; one in the middle of a change says how much was done,
// and the rest is done later.
func TestErrorsOfDeadLetters(t *testing.T) {
	t.Parallel()
	s := newScene(t, failing(), api.Options{})
	s.fails("letter", strings.Split(strings.Repeat("user 1 not found,", 1099)+"user 1 not found", ",")...)
	if err := s.store.Sides().API.PausePool(t.Context(), "mail", "test", new(true)); err != nil {
		t.Fatal(err)
	}
	var away, refuse atomic.Bool
	var writes atomic.Int32
	b := newTab(t, 1280)
	away.Store(true)
	url := s.behind(func(w http.ResponseWriter, r *http.Request) {
		fail := func(text string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"error":{"code":"unavailable","message":%s}}`, quote(text))
		}
		switch {
		case away.Load() && strings.Contains(r.URL.Path, "/dead-letters") && strings.HasPrefix(r.URL.Path, "/api/"):
			fail("the <b>store</b> is away")
		case r.Method == http.MethodPost && refuse.Load() && writes.Add(1)%2 == 0:
			fail("the store went away")
		default:
			s.handler.ServeHTTP(w, r)
		}
	})
	b.navigate(url + "dead-letters")
	b.says("#banners", "Request failed: the <b>store</b> is away. Retrying.")
	b.says("#headline", "Retrying …")
	away.Store(false)
	b.says("#groups td[data-label=Tasks]", "over 1000")
	b.until("the error is gone", `document.querySelector("#banners").innerText === ""`)
	away.Store(true)
	s.run("report")
	b.says("#banners", "Request failed: the <b>store</b> is away")
	b.says("#groups", "over 1000") // what was there stays
	away.Store(false)
	b.says("#groups", "report")

	b.click(`#groups tbody tr:nth-child(2) a`)
	b.says("#headline", "over 1000 tasks failed for good in this way")
	b.says("#h-tasks", "20 of over 1000")
	refuse.Store(true)
	b.press("Retry them …")
	b.says("#bulk", "Nothing was retried: the store went away")
	refuse.Store(false)
	b.press("Retry them …")
	b.says("#bulk", "1100 tasks that ended by ")
	refuse.Store(true)
	writes.Store(0)
	b.press("Retry 1100 tasks")
	b.says("#bulk", "Stopped: the store went away. 500 tasks were retried. The same goes on with what is left.")
	b.says("#headline", "600 tasks failed for good in this way")
	refuse.Store(false)
	b.press("Retry them …")
	b.press("Retry 600 tasks")
	b.says("#bulk", "600 tasks were retried.")
	b.says("#headline", "None is left")
	if n := s.count(jobs.StatePending); n != 1100 {
		t.Errorf("%d tasks wait after the retry of 1100", n)
	}
	b.forget()
}

// TestStopARetry: a change that is told to stop ends after the batch that is under way, and so does one whose reader goes on to another group.
func TestStopARetry(t *testing.T) {
	t.Parallel()
	s := newScene(t, failing(), api.Options{})
	s.fails("letter", strings.Split(strings.Repeat("user 1 not found,", 1099)+"user 1 not found", ",")...)
	if err := s.store.Sides().API.PausePool(t.Context(), "mail", "test", new(true)); err != nil {
		t.Fatal(err)
	}
	arrived, release := make(chan bool), make(chan bool)
	var hold atomic.Bool
	url := s.behind(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && hold.Load() {
			arrived <- true
			<-release
		}
		s.handler.ServeHTTP(w, r)
	})
	b := newTab(t, 1280)
	b.navigate(url + "dead-letters")
	b.click(`#groups tbody tr a`)
	b.press("Retry them …")
	b.says("#bulk", "1100 tasks that ended by ")
	hold.Store(true)
	b.press("Retry 1100 tasks")
	<-arrived
	b.says("#bulk", "0 of 1100 retried …")
	b.press("Stop")
	hold.Store(false)
	release <- true
	b.says("#bulk", "Stopped. 500 tasks were retried. The same goes on with what is left.")
	if n := s.count(jobs.StatePending); n != 500 {
		t.Errorf("%d tasks wait", n)
	}
	b.press("Retry them …")
	b.says("#bulk", "600 tasks that ended by ")
	hold.Store(true)
	b.press("Retry 600 tasks")
	<-arrived
	b.click("#up a")
	b.says("#headline", "in 1 group")
	hold.Store(false)
	release <- true
	b.says("#groups td[data-label=Tasks]", "100")
	if n := s.count(jobs.StatePending); n != 1000 {
		t.Errorf("%d tasks wait", n)
	}
}

// TestManyDeadLetters: of many groups, and of many tasks of one, the page shows some, and more on demand.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	s := newScene(t, failing(), api.Options{})
	var failures []string
	for i := range 130 {
		failures = append(failures, "fault "+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	s.fails("letter", failures...)
	s.fails("fax", strings.Split(strings.Repeat("line busy,", 44)+"line busy", ",")...)
	rows := func(b *tab, id string, n int) {
		t.Helper()
		b.until(fmt.Sprint(n, " rows in ", id), fmt.Sprintf(`document.querySelectorAll("#%s tbody tr").length === %d`, id, n))
	}
	b := newTab(t, 1280)
	b.navigate(s.url + "dead-letters")
	b.says("#headline", "in 50 groups or more")
	rows(b, "groups", 50)
	b.click("#more")
	b.says("#headline", "in 100 groups or more")
	b.click("#more")
	b.says("#headline", "in 131 groups")
	rows(b, "groups", 131)
	b.until("there are no more", `document.querySelector("#more").hidden`)
	b.click(`#groups tbody tr a`) // it ended last
	b.says("#headline", "45 tasks failed for good in this way")
	rows(b, "tasks", 20)
	b.says("#h-tasks", "20 of 45")
	b.click("#more")
	rows(b, "tasks", 40)
	b.click("#more")
	rows(b, "tasks", 45)
	b.until("there are no more", `document.querySelector("#more").hidden`)
	if text := b.text("#h-tasks"); strings.Contains(text, "of") {
		t.Error(text)
	}
}
