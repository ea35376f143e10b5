package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	devpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	code := servers.Main(m)
	quit()
	os.Exit(code)
}

// chromium is the browser of all tests.
var chromium struct {
	sync.Mutex
	ctx  context.Context //nolint:containedctx // it is how chromedp names a browser
	quit []func()
}

func browser(t *testing.T) context.Context {
	t.Helper()
	servers.Need(t, "chromium")
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.ctx != nil {
		return chromium.ctx
	}
	dir, err := os.MkdirTemp("", "lockstep-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath("chromium"), chromedp.UserDataDir(dir), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
	}
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage", "mute-audio"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	alone, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeAll := chromedp.NewContext(alone)
	chromium.quit = []func(){closeAll, stop, func() { _ = os.RemoveAll(dir) }}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	chromium.ctx = ctx
	return ctx
}

func quit() {
	for _, f := range chromium.quit {
		f()
	}
}

// tab is one page with its own storage, and its console errors.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // it is how chromedp names a tab

	mu         sync.Mutex
	complaints []string
}

// watcher records violations of the policy, before the page begins.
const watcher = `window.refused = []; addEventListener("securitypolicyviolation", (e) => refused.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

// newTab opens a tab with a desktop's or a phone's width. At its end there must be no policy violation, exception or
// new window; console messages about failed requests are expected in tests that cause them.
func newTab(t *testing.T, width int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // before a timeout: it would be the tab's
		t.Fatal(err)
	}
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.notice); err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, devpage.AddScriptToEvaluateOnNewDocument, devpage.AddScriptToEvaluateOnNewDocumentParams{Source: watcher})
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600})
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if refused := eval[[]string](b, `refused`); len(refused) > 0 {
			t.Errorf("the policy refused %q", refused)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.complaints) > 0 {
			t.Errorf("the browser complains: %q", b.complaints)
		}
	})
	return b
}

func (b *tab) notice(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, fmt.Sprintf("%+v", *e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("console.%s", e.Type))
	case *devpage.EventJavascriptDialogOpening:
		b.complaints = append(b.complaints, "dialog "+e.Message)
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork {
			b.complaints = append(b.complaints, e.Entry.Text)
		}
	}
}

// call gives the browser a command about the tab.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// do returns the result of an action.
func do[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *tab) navigate(url string) {
	b.t.Helper()
	do(b, chromedp.Navigate(url))
}

// eval returns the value of an expression of the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return do(b, chromedp.Evaluate[T](expression))
}

// until waits until an expression of the page is true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithDeadline(b.ctx, deadline)
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		cancel()
		switch {
		case holds:
			return
		case time.Now().After(deadline):
			b.t.Fatalf("still not: %s; the page says:\n%s", what, b.text("body"))
		case err != nil && !strings.Contains(err.Error(), "navigated"): // it may be about to load
			b.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// says waits until a text is visible in the first element of a selector.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf("document.querySelector(%s)?.innerText.includes(%s)", quote(selector), quote(text)))
}

// text is the visible text.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%s)?.innerText ?? ''", quote(selector)))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.until("there is "+selector, fmt.Sprintf("document.querySelector(%s)", quote(selector)))
	do(b, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%s).click()", quote(selector))))
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string always can be
	return strings.ReplaceAll(string(text), "</", `<\/`)
}

// run runs a script of the page and waits for its promise.
func (b *tab) run(script string) {
	b.t.Helper()
	do(b, chromedp.Evaluate[chromedp.Void](script, chromedp.EvalAwaitPromise))
}

// forget drops expected errors.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = nil
}
