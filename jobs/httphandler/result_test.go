package httphandler_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// told keeps the result.
type told struct{ result string }

func (*told) ReportProgress(float64, string) {}

func (r *told) ReportResult(result json.RawMessage) error {
	r.result = string(result)
	return nil
}

// The answer is the result if it says that it is JSON and is, whatever its status; without the secrets of the request.
func TestTheAnswerIsTheResult(t *testing.T) {
	largest := `"` + strings.Repeat("x", httphandler.MaxOutput-2) + `"`
	for _, c := range []struct {
		kind, body string
		status     int
		want, says string
	}{
		{"application/json", `{"sent": [3, "ü"]}` + "\n", 200, `{"sent":[3,"ü"]}`, ""},
		{"application/json; charset=utf-8", `3`, 201, `3`, ""},
		{"application/problem+json", `{"title":"no"}`, 500, `{"title":"no"}`, ""},
		{"Application/JSON", `null`, 200, `null`, ""},
		{"application/json", largest, 200, largest, ""},
		{"application/json", largest + " ", 200, "", "[the task has no result: the answer is longer than 64 KiB]"},
		{"application/json", `{"sent":`, 200, "", "[the task has no result: the answer: result: invalid: not valid JSON]"},
		{"application/json", ``, 200, "", ""},
		{"application/json", `{"your":"secret-token"}`, 200, `{"your":"…"}`, ""},
		{"text/plain", `{"sent":3}`, 200, "", ""},
		{"", `{"sent":3}`, 200, "", ""},
		{"application/jsonish", `{"sent":3}`, 200, "", ""},
		{"; /", `{"sent":3}`, 200, "", ""},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.kind}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		r := &told{}
		reported := task
		reported.Reporter = r
		out, err := run(t, httphandler.Request{URL: url, Headers: map[string]string{"Authorization": "Bearer secret-token"}}, reported)
		if (err == nil) != (c.status < 300) || r.result != c.want {
			t.Errorf("%s %.40q: %v, result %.60q", c.kind, c.body, err, r.result)
		}
		if !strings.Contains(out, c.says) || strings.Contains(out, "no result") != (c.says != "") {
			t.Errorf("%s %.40q: output …%q", c.kind, c.body, out[max(0, len(out)-100):])
		}
		again, err := run(t, httphandler.Request{URL: url}, jobs.Task{ID: "1"}) // nobody takes the result
		if (err == nil) != (c.status < 300) || strings.Contains(again, "no result") {
			t.Errorf("%s %.40q, without a reporter: %v, output …%q", c.kind, c.body, err, again[max(0, len(again)-100):])
		}
	}
}

// An error has what the server says of it, where that is a text for people and not the status again.
func TestTheFirstLineOfAnAnswerIsInTheError(t *testing.T) {
	long := strings.Repeat("ü", 300)
	for _, c := range []struct{ kind, body, want string }{
		{"text/plain; charset=utf-8", "\n no such order \nat main.go:3\n", ": no such order"},
		{"text/plain", "internal server error\n", ""},
		{"text/plain", "Internal Server Error: disk full", ": Internal Server Error: disk full"},
		{"text/plain", "", ""},
		{"text/plain", "a \x1b[31mred\x1b[0m\ttext", ": a red text"},
		{"text/plain", "not UTF-8 \xff", ""},
		{"text/plain", long, ": " + long[:200] + "…"},
		{"application/json", "{\n  \"error\": \"no such order\"\n}", `: {"error":"no such order"}`},
		{"application/problem+json", `{"title":`, `: {"title":`},
		{"text/plain", "your secret-token is wrong", ": your … is wrong"},
		{"", "plain", ": plain"},
		{"", "<!DOCTYPE html>\n<p>no</p>", ""},
		{"text/html", "no", ""},
		{"application/octet-stream", "no", ""},
		{"; /", "no", ""},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.kind}
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(c.body))
		})
		_, err := run(t, httphandler.Request{URL: url, Headers: map[string]string{"Authorization": "Bearer secret-token"}}, task)
		if want := "POST " + url + ": unexpected status 500 Internal Server Error" + c.want; err == nil || err.Error() != want {
			t.Errorf("%s %.40q: %v, want …%s", c.kind, c.body, err, c.want)
		}
		if status := (*jobs.StatusError)(nil); !errors.As(err, &status) || status.Status != 500 {
			t.Errorf("%s %.40q: no status in %v", c.kind, c.body, err)
		}
	}
}
