package page_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// beyond lists elements that overflow the screen to the right, or are too narrow to read.
const beyond = `(() => {
  const out = [];
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) out.push("the page is " + root.scrollWidth + " wide");
  for (const e of document.querySelectorAll("main *, header *, #banners *, footer *")) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && getComputedStyle(e).clipPath === "none" && !e.closest("thead") && (r.right > innerWidth + 1 || r.left < -1)) out.push(e.tagName + " " + e.className + " " + e.innerText?.slice(0, 40));
    if (e.tagName === "TD" && r.width > 0 && e.innerText.length > 30 && r.width < 60) out.push("narrow: " + e.innerText.slice(0, 40));
  }
  return out.slice(0, 5);
})()`

// TestWidths: there is no horizontal scrolling, with long names and reasons, on a phone, on a desktop, and on a desktop
// at 200 %.
func TestWidths(t *testing.T) {
	t.Parallel()
	long := "a" + strings.Repeat("b", 62) + "c"
	set := jobs.Set{
		Jobs: map[string]jobs.Job{
			long: {Schedule: "@daily", Description: strings.Repeat("word ", 60), Labels: map[string]string{"x": strings.Repeat("y", 100)}, Handler: does(func(_ context.Context, _ jobs.Task, out io.Writer) error {
				fmt.Fprintln(out, strings.Repeat("z", 500))
				return errors.New(strings.Repeat("e", 400))
			})},
			"short": {Schedule: "@yearly", Handler: does(fine)},
		},
		Pools: map[string]jobs.Pool{strings.Repeat("p", 64): {Handler: does(fine), Order: jobs.OrderKey, Fair: &jobs.Fair{}, PerKey: jobs.KeyLimits{MaxRunning: 1, Rate: jobs.Rate{Count: 1_000_000, Per: 90 * time.Minute}, Burst: 1_000_000}}},
	}
	s := newScene(t, set, api.Options{})
	task := s.run(long)
	s.run("short")
	if err := s.store.Sides().API.PausePool(t.Context(), strings.Repeat("p", 64), strings.Repeat("w", 64), new(true)); err != nil {
		t.Fatal(err)
	}
	all := &wire.PoolLimits{MaxRunning: new(1_000_000), Rate: &jobs.Rate{Count: 1_000_000, Per: 90 * time.Minute}, Burst: new(1_000_000)}
	if err := s.store.Sides().API.LimitPool(t.Context(), strings.Repeat("p", 64), strings.Repeat("w", 64), all); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Sides().Replica.Join(t.Context(), ledger.Member{Replica: strings.Repeat("w", 64), Pool: strings.Repeat("p", 64), Kinds: []string{strings.Repeat("k", 64), "l"}, Owner: strings.Repeat("o", 64), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{320, 360, 640, 1280} {
		b := newTab(t, width)
		b.navigate(s.url)
		b.click(`#trouble button[data-task]`)
		b.says(".more", "zzz")
		if out := eval[[]string](b, beyond); len(out) > 0 {
			t.Errorf("overview at %d: %q", width, out)
		}
		b.navigate(s.url + "dead-letters")
		b.says("#groups", "eee")
		if out := eval[[]string](b, beyond); len(out) > 0 {
			t.Errorf("dead letters at %d: %q", width, out)
		}
		b.click("#groups a")
		b.press("Retry them …")
		b.says("#bulk", "Skipped: 1")
		b.click("#tasks button[data-task]")
		b.says(".more", "zzz")
		if out := eval[[]string](b, beyond); len(out) > 0 {
			t.Errorf("a group at %d: %q", width, out)
		}
		b.navigate(s.url + "jobs/" + long + "#" + task.ID)
		b.says(".more", "zzz")
		if out := eval[[]string](b, beyond); len(out) > 0 {
			t.Errorf("job at %d: %q", width, out)
		}
		if width != 360 {
			continue
		}
		if bad := eval[[]string](b, `[...document.querySelectorAll("#triggers td")].filter((td) => td.offsetHeight && !td.matches(".head, .act, .more") && getComputedStyle(td, "::before").content.length < 4).map((td) => td.innerText)`); len(bad) > 0 {
			t.Errorf("cells of a phone that do not say what they are: %q", bad)
		}
	}
}

// TestKeyboard: everything works by keyboard, and updates keep the focus.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	work := &switchable{}
	work.broken.Store(true)
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"backup": {Handler: work}, "other": {Handler: work}}}, api.Options{})
	task := s.run("backup")
	b := newTab(t, 1280)
	b.navigate(s.url)
	b.says("#trouble", "backup")
	button := `document.querySelector('#trouble button[data-task="` + task.ID + `"]')`
	eval[bool](b, button+`.focus(), true`)
	do(b, chromedp.KeyEvent("\r"))
	b.says("#trouble .more", "hello from backup")
	s.run("other")
	b.says("#trouble", "other")
	if !eval[bool](b, `document.activeElement === `+button+` && document.activeElement.getAttribute("aria-expanded") === "true"`) {
		t.Errorf("the focus moved to %s", eval[string](b, `document.activeElement.tagName + " " + document.activeElement.className`))
	}
	eval[bool](b, `document.dispatchEvent(new KeyboardEvent("keydown", { key: "/", cancelable: true })), true`)
	do(b, chromedp.KeyEvent("oth"))
	b.says("#found", "other")
	do(b, chromedp.KeyEvent("\r"))
	b.says("#name", "other")
	if bad := eval[[]string](b, `[...document.querySelectorAll("section")].filter((s) => !s.getAttribute("aria-label") && !document.getElementById(s.getAttribute("aria-labelledby"))).map((s) => s.id)`); len(bad) > 0 {
		t.Errorf("sections without a name: %q", bad)
	}
	if got := eval[string](b, `["header", "main", "nav", "footer", "search"].filter((e) => document.querySelectorAll(e).length !== 1).join()`); got != "" {
		t.Errorf("landmarks: %s", got)
	}
}
