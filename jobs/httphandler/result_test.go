package httphandler_test

import (
	"encoding/json"
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
