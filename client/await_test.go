package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// replies is a replica that gives one reply after the other, and the last one again. "" is no connection; others than JSON break.
type replies struct {
	all   []string
	asked []time.Time
}

func (r *replies) RoundTrip(req *http.Request) (*http.Response, error) {
	r.asked = append(r.asked, time.Now())
	reply := r.all[min(len(r.asked), len(r.all))-1]
	switch reply {
	case away:
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	case reset:
		return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	case frozen:
		<-req.Context().Done()
		return nil, req.Context().Err()
	case foreign:
		return nil, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	}
	status := http.StatusOK
	for code, is := range map[string]int{
		"not_found": http.StatusNotFound, "invalid": http.StatusUnprocessableEntity, "too_many_requests": http.StatusTooManyRequests,
		"internal": http.StatusInternalServerError, "unavailable": http.StatusServiceUnavailable,
	} {
		if strings.Contains(reply, code) {
			status = is
		}
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(reply)), Request: req,
	}, nil
}

func (r *replies) client(t *testing.T) *Client {
	c, err := New("http://replica.test", Options{HTTPClient: &http.Client{Transport: r}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	away      = ""
	reset     = "reset"
	frozen    = "frozen"
	foreign   = "foreign"
	cut       = `{"id":"a",`
	many      = `{"error":{"code":"too_many_requests","message":"wait"}}`
	internal  = `{"error":{"code":"internal","message":"see the log"}}`
	refusing  = `{"error":{"code":"invalid","message":"no"}}`
	down      = `{"error":{"code":"unavailable","message":"the store does not answer"}}`
	unknown   = `{"error":{"code":"not_found","message":"no task"}}`
	pending   = `{"id":"a","state":"pending"}`
	running   = `{"id":"a","state":"running"}`
	failed    = `{"id":"a","state":"failed","error":"boom"}`
	succeeded = `{"id":"a","state":"succeeded"}`
)

// A task is followed until it has ended, however it ends, through replicas and stores that are away for less than a minute.
func TestFollow(t *testing.T) {
	errSeen := errors.New("enough")
	for what, c := range map[string]struct {
		replies []string
		seen    string
		took    time.Duration // within a second
		err     error
	}{
		"it has ended":        {[]string{succeeded}, "succeeded", 0, nil},
		"it ends":             {[]string{pending, pending, running, succeeded}, "pending pending running succeeded", 0, nil},
		"it fails":            {[]string{running, failed}, "running failed", 0, nil},
		"nothing answers":     {[]string{away, down, away, down, running, away, down, succeeded}, "running succeeded", 0, nil},
		"connections break":   {[]string{running, reset, cut, reset, many, internal, succeeded}, "running succeeded", 0, nil},
		"one is frozen":       {[]string{running, frozen, succeeded}, "running succeeded", 20 * time.Second, nil},
		"all are frozen":      {[]string{running, frozen}, "running", time.Minute, context.DeadlineExceeded},
		"all break":           {[]string{running, reset}, "running", time.Minute, syscall.ECONNRESET},
		"it is refused":       {[]string{refusing}, "", 0, jobs.ErrInvalid},
		"not trusted":         {[]string{foreign}, "", 0, x509.UnknownAuthorityError{}},
		"there is none":       {[]string{unknown}, "", 0, jobs.ErrNotFound},
		"it is deleted":       {[]string{running, unknown}, "running", 0, jobs.ErrNotFound},
		"no replica for long": {[]string{running, away}, "running", time.Minute, ErrUnreachable},
		"no store for long":   {[]string{down}, "", time.Minute, jobs.ErrUnavailable},
		"ended by ctx":        {[]string{running}, "", 2 * time.Minute, context.DeadlineExceeded},
		"ended by see":        {[]string{"{\"id\":\"stop\"}"}, "", 0, errSeen},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &replies{all: c.replies}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				began := time.Now()
				var seen []string
				task, err := server.client(t).Follow(ctx, "a", func(task wire.Task) error {
					if task.ID == "stop" {
						return errSeen
					}
					seen = append(seen, string(task.State))
					return nil
				})
				if took := time.Since(began); !errors.Is(err, c.err) || c.err == nil && err != nil || took < c.took || took > c.took+3*time.Second {
					t.Errorf("%v after %v, want %v after %v", err, took, c.err, c.took)
				}
				if got := strings.Join(seen, " "); c.err != context.DeadlineExceeded && got != c.seen {
					t.Errorf("seen: %s, want %s", got, c.seen)
				}
				if len(seen) > 0 && string(task.State) != seen[len(seen)-1] || len(seen) == 0 && task.State != "" {
					t.Errorf("with %v the task is returned as %q, and was seen as %q last", err, task.State, seen)
				}
				if err == nil && (strings.Contains(c.seen, "failed") != (task.Error == "boom")) {
					t.Errorf("returned %+v", task)
				}
			})
		})
	}
}

// With an error FollowOutput returns the task as it was seen last, also where all was told and the task itself is gone then.
func TestFollowOutputReturnsWhatWasSeen(t *testing.T) {
	const runs, ended = `{"task":{"id":"a","state":"running"},"next":"1"}`, `{"task":{"id":"a","state":"failed"},"ended":true}`
	for want, all := range map[jobs.State][]string{"": {unknown}, jobs.StateRunning: {runs, unknown}, jobs.StateFailed: {runs, ended, unknown}} {
		task, err := (&replies{all: all}).client(t).FollowOutput(t.Context(), "a", func(jobs.Task) error { return nil }, nil)
		if !errors.Is(err, jobs.ErrNotFound) || task.State != want {
			t.Errorf("%q: %+v, %v", want, task, err)
		}
	}
}

// That there is no answer is told at the first try, with how long it is tried again, once until there is one.
func TestFollowSaysThatThereIsNoAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		replies []string
		told    string // after how long, rounded to seconds, and how long is left
	}{
		"all answer":          {[]string{running, succeeded}, ""},
		"refused at once":     {[]string{unknown}, ""},
		"away twice":          {[]string{running, away, down, away, running, reset, succeeded}, "0s 1m0s, 0s 1m0s"},
		"one is frozen":       {[]string{running, frozen, succeeded}, "20s 40s"},
		"no replica for long": {[]string{away}, "0s 1m0s"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				began := time.Now()
				replica, err := New("http://replica.test", Options{HTTPClient: &http.Client{Transport: &replies{all: c.replies}}, Away: func(err error, left time.Duration) {
					if err == nil {
						t.Error("without an error")
					}
					told = append(told, time.Since(began).Truncate(time.Second).String()+" "+left.Round(time.Second).String())
				}})
				if err != nil {
					t.Fatal(err)
				}
				_, _ = replica.Await(t.Context(), "a")
				if got := strings.Join(told, ", "); got != c.told {
					t.Errorf("told: %s, want %s", got, c.told)
				}
			})
		})
	}
}

// An order is awaited as a task is, and what was seen of it last is returned with an error.
func TestAwaitOrder(t *testing.T) {
	const open, done, skipped = `{"id":"o","state":"open"}`, `{"id":"o","state":"done","task_id":"a"}`, `{"id":"o","state":"skipped"}`
	for what, c := range map[string]struct {
		replies []string
		state   wire.OrderState
		took    time.Duration // within a second
		err     error
	}{
		"it has ended":        {[]string{done}, wire.OrderDone, 0, nil},
		"it is skipped":       {[]string{open, open, skipped}, wire.OrderSkipped, 0, nil},
		"nothing answers":     {[]string{open, away, down, reset, done}, wire.OrderDone, 0, nil},
		"one is frozen":       {[]string{open, frozen, done}, wire.OrderDone, 20 * time.Second, nil},
		"no replica for long": {[]string{open, away}, wire.OrderOpen, time.Minute, ErrUnreachable},
		"it is deleted":       {[]string{open, unknown}, wire.OrderOpen, 0, jobs.ErrNotFound},
		"ended by ctx":        {[]string{open}, wire.OrderOpen, 2 * time.Minute, context.DeadlineExceeded},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				began := time.Now()
				order, err := (&replies{all: c.replies}).client(t).AwaitOrder(ctx, "o")
				if took := time.Since(began); !errors.Is(err, c.err) || c.err == nil && err != nil || took < c.took || took > c.took+3*time.Second {
					t.Errorf("%v after %v, want %v after %v", err, took, c.err, c.took)
				}
				if order.State != c.state {
					t.Errorf("returned %+v, want it %s", order, c.state)
				}
			})
		})
	}
}

// The pauses between requests grow from 50 ms to a second.
func TestFollowAsksLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &replies{all: []string{running}}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := server.client(t).Await(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		pause := time.Duration(0)
		for i, at := range server.asked[1:] {
			if next := at.Sub(server.asked[i]); next < pause || i == 0 && next != 50*time.Millisecond || next > time.Second {
				t.Errorf("%v after %v", next, pause)
			} else {
				pause = next
			}
		}
		if pause != time.Second || len(server.asked) > 45 {
			t.Errorf("asked %d times, at last each %v", len(server.asked), pause)
		}
	})
}
