package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// ordering is a replica with one order, and one task that its run made. It is away from a time on, for a while.
type ordering struct {
	away, until, made time.Time
	order, task       string // from made on; before that the order is open
}

func (o *ordering) RoundTrip(req *http.Request) (*http.Response, error) {
	now, status := time.Now(), http.StatusOK
	if !now.Before(o.away) && now.Before(o.until) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	body := o.task
	switch {
	case strings.Contains(req.URL.Path, "/orders/") && now.Before(o.made):
		body = `{"id":"o1","job":"report","state":"open"}`
	case strings.Contains(req.URL.Path, "/orders/"):
		body = o.order
	case strings.HasSuffix(req.URL.Path, "/logs"):
		body = `{"task":` + o.task + `,"items":[{"attempt":1,"at":0,"text":"output\n"}],"next":"x","ended":true}`
	}
	if body == "" {
		status, body = http.StatusNotFound, `{"error":{"code":"not_found","message":"no such order"}}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

const (
	orderDone    = `{"id":"o1","job":"report","state":"done","task_id":"a"}`
	orderSkipped = `{"id":"o1","job":"report","state":"skipped","reason":"its slot is taken"}`
	taskDone     = `{"id":"a","state":"succeeded","attempt":1}`
	taskFailed   = `{"id":"a","state":"failed","attempt":1,"error":"boom"}`
	taskRuns     = `{"id":"a","state":"running","attempt":1,"replica":"r1"}`
)

// A run at a time is waited for over a replica that is away for up to a minute, which is said at once. With -o json there is one document, whatever becomes of it.
func TestFollowOrder(t *testing.T) {
	for what, c := range map[string]struct {
		away, back  time.Duration
		order, task string
		err         string        // in it; "": none
		took        time.Duration // within two seconds
		told        int           // times that there is no answer
		state       string        // of the document
	}{
		"it runs":               {0, 0, orderDone, taskDone, "", 2 * time.Minute, 0, "succeeded"},
		"it fails":              {0, 0, orderDone, taskFailed, "the run did not succeed: failed", 2 * time.Minute, 0, "failed"},
		"away for most of it":   {5 * time.Second, 63 * time.Second, orderDone, taskDone, "", 2 * time.Minute, 1, "succeeded"},
		"away for too long":     {5 * time.Second, 70 * time.Second, orderDone, taskDone, "cannot be reached", 65 * time.Second, 1, "open"},
		"away while it runs":    {130 * time.Second, time.Hour, orderDone, taskRuns, "cannot be reached", 190 * time.Second, 1, "running"},
		"it is not made":        {0, 0, orderSkipped, "", "the run was not made: the order is skipped: its slot is taken", 2 * time.Minute, 0, "skipped"},
		"the order is not kept": {0, 0, "", "", "no such order", 2 * time.Minute, 0, "open"},
	} {
		for _, output := range []string{"table", "json"} {
			t.Run(what+" "+output, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					replica := &ordering{away: began.Add(c.away), until: began.Add(c.back), made: began.Add(2*time.Minute - time.Millisecond), order: c.order, task: c.task}
					var stdout, stderr strings.Builder
					a := &app{stdout: &stdout, stderr: &stderr, exact: &stdout, output: output, now: time.Now}
					cl, err := client.New("http://replica.test", client.Options{HTTPClient: &http.Client{Transport: replica}, Away: a.away})
					if err != nil {
						t.Fatal(err)
					}
					err = a.followOrder(t.Context(), cl, wire.Order{ID: "o1", Job: "report", State: wire.OrderOpen})
					if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
						t.Errorf("%v", err)
					}
					if took := time.Since(began); took < c.took-time.Second || took > c.took+2*time.Second {
						t.Errorf("after %v", took)
					}
					if got := strings.Count(stderr.String(), "No answer yet, it is asked again for "); got != c.told {
						t.Errorf("told %d times: %s", got, stderr.String())
					}
					if output == "table" {
						return
					}
					var document struct {
						ID    string     `json:"id"`
						State jobs.State `json:"state"`
					}
					if err := json.Unmarshal([]byte(stdout.String()), &document); err != nil || string(document.State) != c.state {
						t.Errorf("%q, %v", stdout.String(), err)
					}
				})
			})
		}
	}
}

// A backfill that was waited for fails unless it is done and each run that it made has succeeded. With -o json the order is printed, once, as it ended.
func TestFollowBackfill(t *testing.T) {
	of := func(state string, made, succeeded, failed int) string {
		return fmt.Sprintf(`{"id":"o1","job":"report","kind":"backfill","state":%q,"reason":"why","backfill":{"due_times":3,"made":%d,"succeeded":%d,"failed":%d,"left":%d}}`, state, made, succeeded, failed, 3-made)
	}
	for what, c := range map[string]struct{ order, err string }{
		"all succeed":       {of("done", 3, 3, 0), ""},
		"one fails":         {of("done", 3, 2, 1), "of 3 runs 1 did not succeed"},
		"nothing is to run": {of("done", 0, 0, 0), ""},
		"it is stopped":     {of("cancelled", 1, 1, 0), "the backfill did not come to its end: it is cancelled: why"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stdout, stderr strings.Builder
				a := &app{stdout: &stdout, stderr: &stderr, exact: &stdout, output: "json", now: time.Now}
				cl, err := client.New("http://replica.test", client.Options{HTTPClient: &http.Client{Transport: &ordering{order: c.order}}, Away: a.away})
				if err != nil {
					t.Fatal(err)
				}
				err = a.followBackfill(t.Context(), cl, wire.Order{ID: "o1", Job: "report", State: wire.OrderOpen, Backfill: &wire.Backfill{}})
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("%v", err)
				}
				var got, want wire.Order
				if err := json.Unmarshal([]byte(stdout.String()), &got); err != nil || json.Unmarshal([]byte(c.order), &want) != nil || !reflect.DeepEqual(got, want) || strings.Count(stderr.String(), " of 3 left") != 1 {
					t.Errorf("%v: %s%s", err, stdout.String(), stderr.String())
				}
			})
		})
	}
}
