package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// evil is text with markup and code; n identifies its source.
func evil(n string) string {
	return fmt.Sprintf(`<img src=x class=evil onerror="window.pwned=1;alert('%[1]s')"><script class=evil>pwned=1</script><svg class=evil onload=alert(1)>`+
		`"'></pre></td></table><b class=evil>%[1]s</b>javascript:alert(1) {{7*7}} &lt;i&gt;`, n)
}

// TestHostileText: texts of jobs, tasks and users are shown as text.
func TestHostileText(t *testing.T) {
	t.Parallel()
	bad := does(func(_ context.Context, _ jobs.Task, out io.Writer) error {
		fmt.Fprintln(out, evil("output"))
		return errors.New(evil("error") + "\nmore")
	})
	set := jobs.Set{
		Jobs: map[string]jobs.Job{"backup": {
			Description: evil("description"), Handler: bad, Concurrency: jobs.Allow, Labels: map[string]string{"team": evil("label")},
			Payload: json.RawMessage(`{"payload":` + quote(evil("job-payload")) + `}`),
		}},
		Pools: map[string]jobs.Pool{"mail": {Description: evil("pool"), Handler: bad, Retries: jobs.Retries{Limit: jobs.NoRetries}}},
	}
	s := newSceneOf(t, set, api.Options{}, scheduler.Options{ID: "<b class=evil>id</b>", Version: "1<b class=evil>version</b>"})
	if _, _, err := s.replica.RunJob(t.Context(), "backup", evil("asker")[:200], ""); err != nil {
		t.Fatal(err)
	}
	task := s.run("backup")
	mail, err := s.store.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Key: "<b class=evil>key</b>", Payload: evil("payload"), Tags: []string{"<b class=evil>tag</b>"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Sides().API.PausePool(t.Context(), "default", "<b class=evil>pauser</b>", new(true)); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Sides().API.LimitPool(t.Context(), "default", "<b class=evil>limiter</b>", &wire.PoolLimits{Burst: new(1)}); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Sides().API.SuspendJob(t.Context(), "backup", "<b class=evil>suspender</b>", new(true)); err != nil {
		t.Fatal(err)
	}
	shown := func(b *tab, texts ...string) {
		t.Helper()
		for _, text := range texts {
			b.says("body", text)
		}
		if n := eval[int](b, `document.querySelectorAll(".evil, script:not([src]), img:not([src$='icon.svg'])").length`); n > 0 || eval[bool](b, `"pwned" in window`) {
			t.Errorf("text became %d elements", n)
		}
	}
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.click(`#trouble button[data-task="` + mail[0].Task.ID + `"]`)
	shown(b, evil("error"), evil("output"), `alert('payload')`, "<b class=evil>tag</b>", "<b class=evil>key</b>", "<b class=evil>id</b>", "1<b class=evil>version</b>", "<b class=evil>pauser</b>", "<b class=evil>limiter</b>", evil("asker")[:150])

	groups, _, err := s.store.DeadLetters(t.Context(), wire.DeadLetterFilter{Pool: "mail"})
	if err != nil || len(groups) != 1 {
		t.Fatalf("%+v, %v", groups, err)
	}
	for _, hash := range []string{"", "#mail/" + groups[0].Fingerprint} {
		b.navigate("about:blank")
		b.navigate(s.url + "dead-letters" + hash)
		shown(b, evil("error"))
	}

	b.navigate(s.url + "jobs/backup#" + task.ID)
	shown(b, evil("description"), evil("label"), evil("error"), evil("output"), `alert('job-payload')`, "<b class=evil>suspender</b>")
	for _, hash := range []string{"#<img src=x onerror=alert(1)>", "#%22%5D,*", "#" + strings.Repeat("x", 5000)} {
		b.navigate("about:blank")
		b.navigate(s.url + "jobs/backup" + hash)
		shown(b, evil("description"))
	}
}

// TestOtherOrigins: the policy refuses what another origin could do with the page.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{}, api.Options{})
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#headline", "Healthy")
	for what, script := range map[string]string{
		"inline script": `const s = document.createElement("script"); s.append("window.pwned = 1"); document.body.append(s)`,
		"markup":        `document.body.innerHTML = "<b>x</b>"`,
		"foreign image": `await new Promise((done) => { const i = new Image(); i.onload = i.onerror = done; i.src = "http://127.0.0.1:9/x.png"; document.body.append(i); })`,
		"foreign call":  `await fetch("http://127.0.0.1:9/")`,
		"inline style":  `document.body.setAttribute("style", "color: red")`,
	} {
		refused := eval[int](b, `refused.length`)
		b.run(`(async () => { try { ` + script + ` } catch {} })()`)
		b.until("the policy refuses "+what, fmt.Sprintf(`refused.length > %d`, refused))
	}
	if eval[bool](b, `"pwned" in window`) {
		t.Error("a script ran")
	}
	eval[bool](b, `(refused = [], true)`) // they were asked for
	b.forget()
}
