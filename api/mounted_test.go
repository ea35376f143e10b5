package api

import (
	"io"
	"net/http"
	"testing"
)

// TestMounted: the page and the metrics are served under the given paths, by GET and HEAD only.
func TestMounted(t *testing.T) {
	say := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'self'")
			_, _ = io.WriteString(w, what+" "+r.PathValue("name")+r.PathValue("file"))
		})
	}
	b := newBackend()
	with := b.api(Options{Metrics: say("metrics"), Page: say("page")})
	without := b.api(Options{})
	for target, want := range map[string]string{
		"/metrics":         "metrics ",
		"/":                "page ",
		"/jobs/backup":     "page backup",
		"/static/page.css": "page page.css",
	} {
		if w := ask(t, with, "GET", target, ""); w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", target, w.Code, w.Body, want)
		} else if got := w.Header().Get("Content-Security-Policy"); got != "default-src 'self'" {
			t.Errorf("%s: policy %q", target, got)
		}
		if w := ask(t, with, "POST", target, ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", target, w.Code)
		}
		if w := ask(t, without, "GET", target, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s without: %d", target, w.Code)
		}
	}
	for _, target := range []string{"/static/", "/static/../x", "/static/..", "/static/.x", "/static/a%2Fb", "/jobs/", "/jobs/a%2Fb", "/x"} {
		if w := ask(t, with, "GET", target, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}
