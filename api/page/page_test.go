package page_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/page"
)

const maxSize = 72_000 // bytes of all files together, as they are sent

func fetch(t *testing.T, target string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w.Result()
}

// TestFiles: all files are served, with a policy that allows only them, and are small.
func TestFiles(t *testing.T) {
	served, size := map[string]bool{}, 0
	targets := []string{"/", "/dead-letters", "/jobs/a.b-c"}
	for len(targets) > 0 {
		target := targets[0]
		targets = targets[1:]
		if served[target] {
			continue
		}
		served[target] = true
		res := fetch(t, target)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", target, res.Status, err)
		}
		size += len(body)
		policy := res.Header.Get("Content-Security-Policy")
		for _, part := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
			"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", target, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %v", target, res.Header)
		}
		again := httptest.NewRequest("GET", target, nil)
		again.Header.Set("If-None-Match", res.Header.Get("ETag"))
		w := httptest.NewRecorder()
		page.Handler().ServeHTTP(w, again)
		if w.Code != http.StatusNotModified {
			t.Errorf("%s asked for again: %d", target, w.Code)
		}
		for _, named := range regexp.MustCompile(`["'](?:\.\./)?(?:static|\.)/([a-z]+\.[a-z]+)["']`).FindAllStringSubmatch(string(body), -1) {
			targets = append(targets, "/static/"+named[1])
		}
	}
	if len(served) < 5 || size > maxSize {
		t.Errorf("%d files of %d bytes, of %d", len(served), size, maxSize)
	}
	for _, target := range []string{"/x", "/static/", "/static/page.go", "/static/index.html", "/static/x/page.js", "/jobs/", "/jobs", "/index.html", "/dead.html", "/dead-letters/", "/dead-letters/x"} {
		if res := fetch(t, target); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", target, res.Status)
		}
	}
}

// TestNoMarkup: no file turns text into markup or code, runs inline code, loads from elsewhere, or shows internal
// terms.
func TestNoMarkup(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]*regexp.Regexp{
		".js":   regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|createContextualFragment|document\.write|DOMParser|srcdoc|\beval\b|new Function|setHTML|javascript:|\.cookie|localStorage|https?://|(?i)[^.]\bsession\b`),
		".html": regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:|https?://|//[a-z]|\bsession\b`),
		".css":  regexp.MustCompile(`@import|url\(|https?:`),
		".svg":  regexp.MustCompile(`(?i)<script|\son[a-z]+=|href`),
	}
	seen := 0
	for _, entry := range entries {
		for suffix, pattern := range bad {
			if !strings.HasSuffix(entry.Name(), suffix) {
				continue
			}
			seen++
			text, err := os.ReadFile(entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if found := pattern.FindString(line); found != "" {
					t.Errorf("%s:%d: %s", entry.Name(), i+1, found)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d files seen", seen)
	}
}

// blank is a response that discards its body.
type blank struct{ header http.Header }

func (b blank) Header() http.Header          { return b.header }
func (blank) WriteHeader(int)                {}
func (blank) Write(text []byte) (int, error) { return len(text), nil }

// TestResponsesShareFiles: a response has no copy of its file.
func TestResponsesShareFiles(t *testing.T) {
	h, r := page.Handler(), httptest.NewRequest("GET", "/static/page.css", nil)
	const times = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		h.ServeHTTP(blank{http.Header{}}, r)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 4<<10 {
		t.Errorf("an answer takes %d bytes", each)
	}
}
