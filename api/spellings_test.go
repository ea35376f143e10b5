package api

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// spellings are paths similar to a route's that are none.
func spellings(path string) []string {
	first, rest, _ := strings.Cut(path[1:], "/")
	all := []string{
		"/" + path, path + "/", path + "//", strings.ReplaceAll(path, "/", "//"), "/." + path, "/.." + path, "/x/.." + path, "/%2e%2e" + path,
		path + "/.", path + "/..", path + "/../" + first, path + "/%2e", path + "/%2E%2e/", path + "/~", path + ";", path + ";a=b", path + "/;a=b",
		path + "%00", path + "%20", path + "%2F", path + "%2f..", path + "%5c", path + "%5C..%5c", path + "%0d%0aX-Evil:%201", path + "%25", path + "%252F",
		path + "%3Fa=b", path + "%23", path + "%c0%af", path + "%ff", path + "%E2%80%AE", path + "*", path + ":8080", path + "," + path, path + path + "/~",
		path + "%2" + strings.Repeat("0", 5000), path + strings.Repeat("/x", 2500), path + "/" + strings.Repeat("%2e%2e/", 1000), "/lockstep" + path, "/%2F" + path,
		"*", "/*", "/%00" + path,
	}
	if first != "" {
		all = append(all, "/"+strings.ToUpper(first)+strings.TrimPrefix(path, "/"+first), "/"+first[:1]+"%"+fmt.Sprintf("%02x", first[1])+path[3:],
			"/"+first+"%2F"+rest, "/"+first+"%2f"+rest, "/"+first+"%5C"+rest, "/"+first+"/;/"+rest, "/"+first+";x/"+rest, "/"+first+"/./"+rest, "/"+first+"/../"+first+"/"+rest)
	}
	return all
}

// callers are no token and each role.
func callers(keys tokenSet) map[string]string {
	all := map[string]string{"nobody": ""}
	for role, secret := range keys.secrets {
		all[string(role)] = "Authorization: Bearer " + secret + "\r\n"
	}
	return all
}

var oddMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "Post", "GETX"}

// overrides are headers with which other servers replace a method or a path.
const overrides = "X-HTTP-Method-Override: POST\r\nX-HTTP-Method: POST\r\nX-Method-Override: POST\r\n" +
	"X-Original-URL: /api/v1/jobs/report/run\r\nX-Rewrite-URL: /api/v1/jobs/report/run\r\nX-Forwarded-Prefix: /\r\n"

// TestSpellings: each route has one spelling and one method, with any headers. Others are refused: as unauthorized
// without a token, else as not found or with the allowed methods. Nothing is shown or written, not even in the audit.
func TestSpellings(t *testing.T) {
	t.Parallel()
	keys := newTokenSet()
	b := newBackend()
	static := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "shown") })
	h := b.api(Options{Access: keys, Metrics: static, Page: static})
	who := callers(keys)
	methods := map[string][]string{} // of each path
	for _, route := range routes {
		methods[route.path] = append(methods[route.path], route.method)
		if route.method == "GET" {
			methods[route.path] = append(methods[route.path], "HEAD")
		}
	}
	asked := 0
	ask := func(caller, method, target, more string) *httptest.ResponseRecorder {
		asked++
		text := method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + who[caller] + more + "\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return nil // the server answers 400 by itself
		}
		r.RemoteAddr = "127.0.0.1:55555"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(t.Context()))
		return w
	}
	refuse := func(what string, w *httptest.ResponseRecorder, want int) {
		t.Helper()
		if len(what) > 200 {
			what = what[:200] + "…"
		}
		switch {
		case w.Code != want:
			t.Errorf("%s: %d, want %d: %.200s", what, w.Code, want, w.Body)
		case !strings.HasPrefix(w.Body.String(), `{"error":{"code":`) || strings.Contains(w.Body.String(), "shown") || w.Header().Get("X-Evil") != "":
			t.Errorf("%s: %v %.200s", what, w.Header(), w.Body)
		case want == http.StatusUnauthorized && w.Header().Get("Allow") != "":
			t.Errorf("%s tells what there is: %v", what, w.Header())
		case len(b.changes)+len(b.audit) > 0:
			t.Errorf("%s: wrote %v %v", what, b.changes, b.audit)
			b.changes, b.audit = nil, nil
		}
	}
	for path, allowed := range methods {
		exact := filled(path)
		for caller := range who {
			for _, method := range oddMethods {
				for _, target := range spellings(exact) {
					w := ask(caller, method, target, "")
					if w == nil {
						continue
					}
					want := http.StatusNotFound
					if caller == "nobody" {
						want = http.StatusUnauthorized
					}
					if method == "CONNECT" && target == "*" {
						want = http.StatusForbidden // it names a host
					}
					refuse(fmt.Sprintf("%s %s as %s", method, target, caller), w, want)
				}
				if slices.Contains(allowed, method) {
					continue
				}
				want := http.StatusMethodNotAllowed
				if caller == "nobody" {
					want = http.StatusUnauthorized
				}
				for _, more := range []string{"", overrides} {
					what := fmt.Sprintf("%s %s as %s", method, exact, caller)
					w := ask(caller, method, exact, more)
					refuse(what, w, want)
					if got := w.Header().Get("Allow"); want == http.StatusMethodNotAllowed && got != strings.Join(allowed, ", ") {
						t.Errorf("%s: Allow %q, want %v", what, got, allowed)
					}
				}
			}
			if foreign := ask(caller, "GET", "http://evil.example"+exact, ""); foreign.Code != http.StatusForbidden || strings.Contains(foreign.Body.String(), "shown") {
				t.Errorf("an absolute target as %s: %d %s", caller, foreign.Code, foreign.Body)
			}
			// Headers with another method or path have no effect: this is a read.
			if allowed[0] == "GET" && path != "/api/v1/events" {
				plain, more := ask(caller, "GET", exact, ""), ask(caller, "GET", exact, overrides)
				if plain.Code != more.Code || len(b.changes) > 0 {
					t.Errorf("GET %s as %s: %d, and %d with headers that say otherwise; wrote %v", exact, caller, plain.Code, more.Code, b.changes)
				}
			}
		}
	}
	if asked < 50_000 {
		t.Errorf("only %d requests", asked)
	}
}

// TestMalformedTargets: the server itself refuses malformed requests, and OPTIONS * is not found.
func TestMalformedTargets(t *testing.T) {
	keys := newTokenSet()
	b := newBackend()
	address, _ := start(t, newServer(b.api(Options{Access: keys})))
	for caller, authorization := range callers(keys) {
		nothing := 404
		if caller == "nobody" {
			nothing = 401
		}
		for line, want := range map[string]int{
			"GET /api/v1/jobs\x00 HTTP/1.1":                             400,
			"GET /api/v1/jobs\x7f HTTP/1.1":                             400,
			"GET /api/v1/%zz HTTP/1.1":                                  400,
			"GET api/v1/jobs HTTP/1.1":                                  400,
			"GET /api/v1/jobs HTTP/9.9":                                 505,
			"G(T /api/v1/jobs HTTP/1.1":                                 400,
			"GET /" + strings.Repeat("x", 40_000) + " HTTP/1.1":         431,
			"GET http://evil.example/api/v1/jobs HTTP/1.1":              403,
			"POST https://evil.example/api/v1/jobs/report/run HTTP/1.1": 403,
			"GET http://localhost//api/v1/jobs HTTP/1.1":                nothing,
			"CONNECT localhost:80 HTTP/1.1":                             nothing,
			"CONNECT evil.example:80 HTTP/1.1":                          403,
			"OPTIONS * HTTP/1.1":                                        nothing,
			"TRACE * HTTP/1.1":                                          nothing,
			"GET file:///etc/passwd HTTP/1.1":                           nothing,
			"GET /\\localhost/api/v1/jobs HTTP/1.1":                     nothing,
			"GET /api/v1/jobs/..%2f..%2fapi%2fv1%2ftasks/next HTTP/1.1": nothing,
		} {
			conn := dial(t, address)
			if _, err := fmt.Fprintf(conn, "%s\r\nHost: localhost\r\n%s\r\n", line, authorization); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%.60q as %s: %v", line, caller, err)
				continue
			}
			res.Body.Close()
			conn.Close()
			if res.StatusCode != want {
				t.Errorf("%.60q as %s: %s, want %d", line, caller, res.Status, want)
			}
		}
	}
	if len(b.changes)+len(b.audit) > 0 {
		t.Errorf("wrote %v %v", b.changes, b.audit)
	}
}
