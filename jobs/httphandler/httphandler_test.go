package httphandler_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

func handler(t testing.TB, r httphandler.Request) *httphandler.Handler {
	t.Helper()
	h, err := httphandler.New(r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func serve(t testing.TB, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func run(t testing.TB, r httphandler.Request, task jobs.Task) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := handler(t, r).Run(t.Context(), task, &out)
	return out.String(), err
}

var task = jobs.Task{
	ID: "0197", Pool: "mail", Kind: "welcome", Key: "tenant ü", Job: "digest", Attempt: 2, Token: 7, Replica: "web-1",
	ScheduledAt:    time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC),
	IdempotencyKey: "digest@2026-06-01T08:00:00Z", Payload: []byte(`{"user":7}`),
}

func TestWhatIsSent(t *testing.T) {
	type sent struct {
		Method, URI, Host, Body string
		Header                  map[string]string
	}
	var got sent
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = sent{r.Method, r.RequestURI, r.Host, string(body), map[string]string{}}
		for name := range r.Header {
			got.Header[name] = r.Header.Get(name)
		}
		delete(got.Header, "Traceparent")
		delete(got.Header, "Content-Length")
		fmt.Fprint(w, "thanks")
	})
	host := strings.TrimPrefix(url, "http://")
	own := map[string]string{
		"Lockstep-Job": "digest", "Lockstep-Pool": "mail", "Lockstep-Kind": "welcome", "Lockstep-Key": "tenant ü", "Lockstep-Task-Id": "0197",
		"Lockstep-Scheduled-At": "2026-06-01T08:00:00Z", "Lockstep-Attempt": "2", "Lockstep-Fencing-Token": "7",
		"Lockstep-Replica": "web-1", "Idempotency-Key": "digest@2026-06-01T08:00:00Z", "User-Agent": "lockstep",
	}
	with := func(more ...string) map[string]string {
		all := maps.Clone(own)
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	for what, c := range map[string]struct {
		request httphandler.Request
		want    sent
	}{
		"payload": {httphandler.Request{URL: url + "/mail?a=b"}, sent{"POST", "/mail?a=b", host, `{"user":7}`, with("Content-Type", "application/json")}},
		"body":    {httphandler.Request{URL: url, Method: "put", Body: "hello"}, sent{"PUT", "/", host, "hello", with("Content-Type", "text/plain; charset=utf-8")}},
		"get":     {httphandler.Request{URL: url, Method: "GET"}, sent{"GET", "/", host, "", with()}},
		"headers": {
			httphandler.Request{URL: url, Headers: map[string]string{"authorization": "Bearer x", "content-type": "a/b", "Host": "other.example", "User-Agent": "me", "X-Idempotency-Key": "k", "Accept-Encoding": "gzip"}},
			sent{"POST", "/", "other.example", `{"user":7}`, with("Authorization", "Bearer x", "Content-Type", "a/b", "User-Agent", "me", "X-Idempotency-Key", "k", "Accept-Encoding", "gzip")},
		},
	} {
		out, err := run(t, c.request, task)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil || out != "thanks" {
			t.Errorf("%s: output %q, %v (−want +got):\n%s", what, out, err, diff)
		}
	}
}

// What a task does not have is no header, and a request that has no body sends none.
func TestWhatIsNotSent(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	if _, err := run(t, httphandler.Request{URL: url}, jobs.Task{ID: "0197", Pool: "mail"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Lockstep-Job", "Lockstep-Kind", "Lockstep-Scheduled-At", "Idempotency-Key", "Content-Type"} {
		if values, is := got.Header[name]; is {
			t.Errorf("%s is sent: %q", name, values)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		if _, err := run(t, httphandler.Request{URL: url, Method: method}, task); err != nil || len(body) > 0 || got.ContentLength > 0 || got.Header.Get("Content-Type") != "" {
			t.Errorf("%s: %q is sent, %v", method, body, err)
		}
	}
}

func TestStatuses(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status := 0
		fmt.Sscan(r.URL.Path[1:], &status)
		if wait := r.URL.Query().Get("wait"); wait != "" {
			w.Header().Set("Retry-After", wait)
		}
		w.Header().Set("Location", "http://other.example/x")
		w.WriteHeader(status)
	})
	far := time.Now().Add(25 * time.Hour).UTC().Format(http.TimeFormat)
	soon := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		path   string
		expect []int
		says   string
		wait   time.Duration
	}{
		{"200", nil, "", -1},
		{"204", nil, "", -1},
		{"299", nil, "", -1},
		{"404", []int{200, 404}, "", -1},
		{"302", []int{302}, "", -1},
		{"200", []int{201}, "unexpected status 200 OK", -1},
		{"302", nil, `unexpected status 302 Found to "http://other.example"; redirects are not followed`, -1},
		{"307", nil, "unexpected status 307", -1},
		{"404", nil, "unexpected status 404 Not Found", -1},
		{"500?wait=7", nil, "unexpected status 500", -1},
		{"503", nil, "unexpected status 503", -1},
		{"503?wait=7", nil, "unexpected status 503", 7 * time.Second},
		{"429?wait=0", nil, "unexpected status 429", 0},
		{"429?wait=" + strings.ReplaceAll(soon, " ", "%20"), nil, "unexpected status 429", 90 * time.Second},
		{"429?wait=soon", nil, "unexpected status 429", -1},
		{"429?wait=-5", nil, "unexpected status 429", -1},
		{"429?wait=99999999", nil, "unexpected status 429", -1},
		{"429?wait=86400", nil, "unexpected status 429", 24 * time.Hour},
		{"429?wait=86401", nil, "unexpected status 429", -1},
		{"503?wait=Mon,%2001%20Jun%202020%2008:00:00%20GMT", nil, "unexpected status 503", 0},
		{"503?wait=" + strings.ReplaceAll(far, " ", "%20"), nil, "unexpected status 503", -1},
		{"300", nil, `unexpected status 300 Multiple Choices to "http://other.example"; redirects`, -1},
		{"400", nil, "unexpected status 400 Bad Request$", -1},
		{"399", nil, "unexpected status 399", -1},
		{"204", []int{200, 201}, "unexpected status 204 No Content$", -1},
	} {
		_, err := run(t, httphandler.Request{URL: url + "/" + c.path, ExpectStatus: c.expect}, task)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error()+"$", c.says) {
			t.Errorf("%s, expecting %v: got %v, want %q", c.path, c.expect, err, c.says)
		}
		wait, ok := jobs.RetryDelay(err)
		if ok != (c.wait >= 0) || ok && (wait > c.wait || wait < c.wait-20*time.Second) {
			t.Errorf("%s: retry after %v, %v, want %v", c.path, wait, ok, c.wait)
		}
		if err != nil && strings.Contains(err.Error(), "wait=") {
			t.Errorf("%s: the query is shown in %v", c.path, err)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var second atomic.Int32
	target := serve(t, func(http.ResponseWriter, *http.Request) { second.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, status) })
		if _, err := run(t, httphandler.Request{URL: url}, task); err == nil {
			t.Errorf("%d was a success", status)
		}
	}
	if n := second.Load(); n != 0 {
		t.Errorf("%d requests went to the target", n)
	}
}

// The target of a redirect is shown without secrets: the server may repeat the path of the request.
func TestTargetsOfRedirects(t *testing.T) {
	host := ""
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
		}
		w.WriteHeader(http.StatusFound)
	})
	host = strings.TrimPrefix(url, "http://")
	const advice = "; redirects are not followed, ask the server with curl -i and write the new address"
	for to, want := range map[string]string{
		"":                       "unexpected status 302 Found",
		"/other":                 "unexpected status 302 Found to another path of the same server" + advice,
		"other":                  "unexpected status 302 Found to another path of the same server" + advice,
		"http://" + host + "/x":  "unexpected status 302 Found to another path of the same server" + advice,
		"https://" + host + "/x": `unexpected status 302 Found to "https://` + host + `"` + advice,
		"http://u:p@elsewhere/x": `unexpected status 302 Found to "http://elsewhere"` + advice,
		"ftp://elsewhere/x":      "unexpected status 302 Found to what is no address of HTTP" + advice,
		"http:///x":              "unexpected status 302 Found to what is no address of HTTP" + advice,
		"mailto:amy@elsewhere":   "unexpected status 302 Found to what is no address of HTTP" + advice,
		"http://[elsewhere":      "unexpected status 302 Found to what is no address of HTTP" + advice,
	} {
		_, err := run(t, httphandler.Request{URL: url + "/?to=" + strings.NewReplacer("/", "%2F", ":", "%3A", "@", "%40", "[", "%5B").Replace(to)}, task)
		if err == nil || err.Error() != "POST "+url+"/: "+want {
			t.Errorf("%s: got %v\nwant %s", to, err, want)
		}
	}
}

func TestAnswersAreCut(t *testing.T) {
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for block := bytes.Repeat([]byte("x"), 1<<15); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	start := time.Now()
	if out, err := run(t, httphandler.Request{URL: endless, Timeout: 20 * time.Second}, task); err != nil || len(out) != httphandler.MaxOutput || !strings.HasSuffix(out, "x\n[cut here: the answer is longer than 64 KiB]\n") {
		t.Errorf("endless: %d bytes, the last %q, %v", len(out), out[max(len(out)-60, 0):], err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("endless: took %v", took)
	}

	for length, cut := range map[int]bool{httphandler.MaxOutput - 1: false, httphandler.MaxOutput: false, httphandler.MaxOutput + 1: true} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("é", length)[:length])
		})
		out, err := run(t, httphandler.Request{URL: url}, task)
		if marked := strings.Contains(out, "é\n[cut here"); err != nil || marked != cut || !cut && len(out) != length || len(out) > httphandler.MaxOutput {
			t.Errorf("an answer of %d bytes: %d are kept, ending with %q, %v", length, len(out), out[len(out)-60:], err)
		}
	}

	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	zipped := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Error("compression was asked for")
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	if out, err := run(t, httphandler.Request{URL: zipped}, task); err != nil || out != bomb.String() {
		t.Errorf("zipped: %d bytes of %d, %v", len(out), bomb.Len(), err)
	}
}

func TestSlowAnswersEndAtTheTimeout(t *testing.T) {
	for what, answer := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no end of it": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, ".")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond) // the server is what is slow
			}
		},
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			answer(w, r)
		})
		start := time.Now()
		_, err := run(t, httphandler.Request{URL: url + "/?key=s3cret", Timeout: 300 * time.Millisecond}, task)
		if err == nil || !strings.HasSuffix(err.Error(), "no complete answer within 300ms") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", what, err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
	}
}

func TestStopEndsTheRequest(t *testing.T) {
	arrived := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(&jobs.Stop{Reason: "cancelled by a user"})
	}()
	err := handler(t, httphandler.Request{URL: url}).Run(ctx, task, io.Discard)
	var stop *jobs.Stop
	if !errors.As(err, &stop) || !strings.HasSuffix(err.Error(), ": cancelled by a user") {
		t.Errorf("got %v", err)
	}
}

// A stop while the answer is being read is the stop, and nothing of the connection.
func TestStopEndsTheAnswer(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 1000))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	h := handler(t, httphandler.Request{URL: url, Timeout: time.Hour})
	time.AfterFunc(200*time.Millisecond, func() { cancel(&jobs.Stop{Reason: "drained"}) })
	if err := h.Run(ctx, task, io.Discard); err == nil || err.Error() != "POST "+url+": drained" {
		t.Errorf("got %v", err)
	}
}

// stopping stops the attempt while it writes.
type stopping struct{ cancel context.CancelCauseFunc }

func (s stopping) Write(p []byte) (int, error) {
	s.cancel(&jobs.Stop{Reason: "drained"})
	return len(p), nil
}

// An answer that has come is one, also where the attempt is stopped before it is judged.
func TestAnAnswerIsOneHoweverLate(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	ctx, cancel := context.WithCancelCause(t.Context())
	err := handler(t, httphandler.Request{URL: url}).Run(ctx, task, stopping{cancel})
	if err == nil || err.Error() != "POST "+url+": unexpected status 500 Internal Server Error: no" {
		t.Errorf("got %v", err)
	}
}

// Whatever a task is called, by whatever way it came, none of it becomes a header of its own.
func TestNoHeadersFromNames(t *testing.T) {
	asked := 0
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	for _, evil := range []string{"a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\x00b", "a\r\n\r\nGET / HTTP/1.1"} {
		for name, task := range map[string]jobs.Task{
			"job": {ID: "1", Job: evil}, "pool": {ID: "1", Pool: evil}, "kind": {ID: "1", Kind: evil},
			"key": {ID: "1", IdempotencyKey: evil}, "replica": {ID: "1", Replica: evil}, "id": {ID: evil},
		} {
			if _, err := run(t, httphandler.Request{URL: url}, task); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %q: %v", name, evil, err)
			}
		}
	}
	if asked > 0 {
		t.Errorf("%d requests were sent", asked)
	}
}
