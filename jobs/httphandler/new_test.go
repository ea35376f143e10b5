package httphandler_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

func TestNewRefuses(t *testing.T) {
	ok := "http://app.internal/mail"
	header := func(name, value string) httphandler.Request {
		return httphandler.Request{URL: ok, Headers: map[string]string{name: value}}
	}
	for _, c := range []struct {
		request httphandler.Request
		says    string
	}{
		{httphandler.Request{}, "url: it is missing"},
		{httphandler.Request{URL: "app.internal/mail"}, `the scheme "" is not http or https`},
		{httphandler.Request{URL: "file:///etc/passwd"}, `the scheme "file"`},
		{httphandler.Request{URL: "gopher://x"}, `the scheme "gopher"`},
		{httphandler.Request{URL: "http:///x"}, "it has no host"},
		{httphandler.Request{URL: "http:x"}, "it has no host"},
		{httphandler.Request{URL: "http://u:s3cret@x"}, "use the header Authorization"},
		{httphandler.Request{URL: "http://x:99999"}, "the port 99999 is out of range"},
		{httphandler.Request{URL: "http://x:0"}, "the port 0 is out of range"},
		{httphandler.Request{URL: "http://x:"}, "a port is missing"},
		{httphandler.Request{URL: "http://x:s3cret"}, "it cannot be read"},
		{httphandler.Request{URL: "http://x/\n"}, "it cannot be read"},
		{httphandler.Request{URL: "http://x/\x00"}, "it cannot be read"},
		{httphandler.Request{URL: "http://169.254.169.254/latest"}, "link-local"},
		{httphandler.Request{URL: "http://[::ffff:169.254.169.254]/"}, "link-local"},
		{httphandler.Request{URL: "http://[::]/"}, "unspecified"},
		{httphandler.Request{URL: ok, Method: "GE T"}, "is not one of"},
		{httphandler.Request{URL: ok, Method: "CONNECT"}, "is not one of"},
		{httphandler.Request{URL: ok, ExpectStatus: []int{99}}, "99 is out of range"},
		{httphandler.Request{URL: ok, ExpectStatus: []int{600}}, "600 is out of range"},
		{httphandler.Request{URL: ok, ExpectStatus: []int{199}}, "expect_status: 199 is out of range 200–599"},
		{httphandler.Request{URL: ok, Timeout: -1}, "timeout: -1ns is out of range 0–1 year"},
		{httphandler.Request{URL: ok, Timeout: duration.Max + 1}, "timeout: 8784h0m0.000000001s is out of range 0–1 year"},
		{httphandler.Request{URL: "http://x:65536"}, "the port 65536 is out of range 1–65535"},
		{httphandler.Request{URL: "http://:80/x"}, "it has no host"},
		{httphandler.Request{URL: "http:opaque"}, "it has no host"},
		{header("X", "s3cret\x7f"), "the value of X has a control character"},
		{header("X", "s3cret\x1f"), "the value of X has a control character"},
		{header("X", "s3cret\r\nY: b"), "the value of X has a control character"},
		{header("X", "s3cret\x00"), "the value of X has a control character"},
		{header("X\r\nY", "b"), "is not a name of a header"},
		{header("X: a", "b"), "is not a name of a header"},
		{header("", "b"), "is not a name of a header"},
		{header("lockstep-job", "b"), "Lockstep-Job is set for each request"},
		{header("idempotency-key", "b"), "Idempotency-Key is set for each request"},
		{header("content-length", "1"), "Content-Length is set for each request"},
		{header("Transfer-Encoding", "chunked"), "is set for each request"},
		{httphandler.Request{URL: ok, Headers: map[string]string{"a": "1", "A": "2"}}, "A is given twice"},
	} {
		_, err := httphandler.New(c.request)
		if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: got %v, want ErrInvalid with %q", c.request, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: a value is shown in %v", c.request, err)
		}
	}
	most := httphandler.Request{
		URL: "http://x:65535/", Method: "delete", ExpectStatus: []int{200, 599}, Timeout: duration.Max, Headers: map[string]string{"X": "a\tb c ~é", "user-agent": "me"},
	}
	if _, err := httphandler.New(most); err != nil {
		t.Errorf("%+v: %v", most, err)
	}
	for _, url := range []string{"http://x:1", "http://localhost:8080", "https://10.0.0.1/x?y#z", "http://[::1]:80/", "HTTP://EXAMPLE.com"} {
		if _, err := httphandler.New(httphandler.Request{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	r := httphandler.Request{
		URL: "https://app.internal/mail?key=s3cret", Headers: map[string]string{"Authorization": "s3cret"}, Body: "s3cret", ExpectStatus: []int{204, 200},
	}
	got := handler(t, r).Describe()
	if want := "POST https://app.internal/mail expecting 200 204 within 30s with Authorization"; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
	id := handler(t, r).Identity()
	if want := "POST https://app.internal/mail expecting 200 204 within 30s #79bb2566"; id != want { // or every database would see an edited definition
		t.Errorf("the identity is %s, want %s", id, want)
	}
	for what, change := range map[string]func(*httphandler.Request){
		"method":  func(r *httphandler.Request) { r.Method = "PUT" },
		"path":    func(r *httphandler.Request) { r.URL = "https://app.internal/other?key=s3cret" },
		"query":   func(r *httphandler.Request) { r.URL = "https://app.internal/mail?key=other" },
		"headers": func(r *httphandler.Request) { r.Headers = map[string]string{"Authorization": "other"} },
		"body":    func(r *httphandler.Request) { r.Body = "other" },
		"expect":  func(r *httphandler.Request) { r.ExpectStatus = nil },
		"timeout": func(r *httphandler.Request) { r.Timeout = time.Minute },
	} {
		altered := r
		change(&altered)
		if handler(t, altered).Identity() == id {
			t.Errorf("a change of %s does not count", what)
		}
	}
	if got, want := handler(t, httphandler.Request{URL: "http://app.internal", Timeout: time.Minute}).Describe(), "POST http://app.internal expecting 2xx within 1m0s"; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
	hidden := r
	hidden.SecretPath = true
	other := hidden
	other.URL = "https://app.internal/other?key=s3cret"
	if got, not := handler(t, hidden).Describe(), handler(t, other).Describe(); !strings.HasPrefix(got, "POST https://app.internal/… expecting") || got != not {
		t.Errorf("with a secret path described as %s, and another as %s", got, not)
	}
	bare := hidden
	bare.URL = "https://app.internal/"
	if got, want := handler(t, bare).Describe(), "POST https://app.internal/ expecting 200 204 within 30s with Authorization"; got != want {
		t.Errorf("without a path described as %s, want %s", got, want)
	}
	if handler(t, hidden).Identity() == handler(t, other).Identity() {
		t.Error("a change of a secret path does not count")
	}
	r.ExpectStatus, r.Method = []int{200, 204, 200}, "post"
	if again := handler(t, r).Identity(); again != id {
		t.Errorf("the same in other words is %s, want %s", again, id)
	}
}

// All problems are reported at once, in one order.
func TestNewSaysEverythingAtOnce(t *testing.T) {
	r := httphandler.Request{
		URL: "ftp://x", Method: "PUSH", ExpectStatus: []int{99, 200, 600}, Timeout: -time.Second,
		Headers: map[string]string{"b c": "1", "TE": "1", "Te": "1", "X-A": "1", "x-a": "2", "Ok": "1"},
	}
	want := strings.Join([]string{
		`invalid: the method "PUSH" is not one of DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT`,
		`invalid: url: the scheme "ftp" is not http or https`,
		`invalid: headers: Te is set for each request; remove it`,
		`invalid: headers: Te is set for each request; remove it`,
		`invalid: headers: "b c" is not a name of a header`,
		`invalid: headers: X-A is given twice`,
		`invalid: expect_status: 99 is out of range 200–599`,
		`invalid: expect_status: 600 is out of range 200–599`,
		`invalid: timeout: -1s is out of range 0–1 year`,
	}, "\n")
	if _, err := httphandler.New(r); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
