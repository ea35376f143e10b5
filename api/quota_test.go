package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"encoding/json"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestRoomIsBounded: a party at its bound is refused and nothing is done, others are served, and a released place is
// free.
func TestRoomIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newTokenSet()
		for _, c := range []struct {
			method, target, body string
			quota                func(*server) *quota
			each, all            int64
			needs                Role
		}{
			{"GET", "/api/v1/tasks", "", func(s *server) *quota { return &s.reads }, maxReadsEach, maxReads, Viewer},
			{"GET", "/api/v1/tasks/task-2/logs", "", func(s *server) *quota { return &s.reads }, maxReadsEach, maxReads, Viewer},
			{"GET", "/api/v1/tasks/task-2/logs?follow=", "", func(s *server) *quota { return &s.follows }, maxFollowsEach, maxFollows, Viewer},
			{"GET", "/api/v1/events", "", func(s *server) *quota { return &s.streams }, maxStreamsEach, maxStreams, Viewer},
			{"POST", "/api/v1/pools/mail/tasks", `{"payload":1}`, func(s *server) *quota { return &s.bodies }, maxBodiesEach, maxBodies, Operator},
		} {
			b := newBackend()
			s := newAPI(b.backend(), Options{Access: keys})
			h := s.handler(nil)
			q := c.quota(s)
			try := func(who Role) *httptest.ResponseRecorder {
				return ask(t, h, c.method, c.target, c.body, with(keys.secrets[who]))
			}
			refused := func(w *httptest.ResponseRecorder, why string) {
				t.Helper()
				if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"busy"`) || !strings.Contains(w.Body.String(), why) {
					t.Errorf("%s %s: %d %v %s", c.method, c.target, w.Code, w.Header(), w.Body)
				}
			}
			give, _, ok := q.take(t.Context(), "token my-"+string(c.needs), c.each, 0)
			if !ok {
				t.Fatal("no room for the first")
			}
			refused(try(c.needs), "for one token")
			if w := try(Admin); w.Code >= 300 {
				t.Errorf("another token: %d %s", w.Code, w.Body)
			}
			done := len(b.changes)
			time.AfterFunc(quotaPatience/2, give)
			if w := try(c.needs); c.method+c.target != "GET/api/v1/events" && w.Code >= 300 {
				t.Errorf("after a short wait: %d %s", w.Code, w.Body)
			}
			time.Sleep(time.Second)
			if c.method == "POST" && len(b.changes) == done {
				t.Error("an enqueue that waited was not done")
			}
			var gives []func()
			for i := range c.all / c.each {
				give, _, ok := q.take(t.Context(), fmt.Sprint("token ", i), c.each, 0)
				if !ok {
					t.Fatal("no room for the others")
				}
				gives = append(gives, give)
			}
			rest, _, _ := q.take(t.Context(), "token rest", c.all%c.each, 0)
			if w := try(c.needs); w.Code >= 300 {
				t.Errorf("a token that has nothing, while others have all: %d %s", w.Code, w.Body)
			}
			if give, _, ok := q.take(t.Context(), "token 0", 1, 0); ok {
				t.Error("a token that has something is given what is kept for others")
				give()
			}
			first, _, ok := q.take(t.Context(), "token first", q.firsts, 0)
			if !ok {
				t.Fatal("no room for one that has nothing")
			}
			done = len(b.changes)
			refused(try(c.needs), "for all")
			if len(b.changes) != done {
				t.Errorf("who was told to come again has changed something: %v", b.changes)
			}
			for _, give := range append(gives, rest, first) {
				give()
				give() // once is enough
			}
			if w := try(c.needs); w.Code >= 300 || q.taken != 0 || len(q.by) != 0 {
				t.Errorf("when all have left: %d, %d are taken by %v", w.Code, q.taken, q.by)
			}
		}
	})
}

// The room for a body is its declared length, or its path's limit.
func TestBodiesCount(t *testing.T) {
	for _, c := range []struct {
		path   string
		length int64
		want   int64
	}{
		{"/api/v1/pools/{name}/tasks", 0, 4 << 10},
		{"/api/v1/pools/{name}/tasks", 1 << 20, 1 << 20},
		{"/api/v1/pools/{name}/tasks", -1, maxListBody},
		{"/api/v1/pools/{name}/tasks", 1 << 40, maxListBody},
		{"/api/v1/jobs/{name}/run", -1, maxBody},
	} {
		if got := bodyOf(&http.Request{ContentLength: c.length}, c.path); got != c.want {
			t.Errorf("%s, %d: %d, want %d", c.path, c.length, got, c.want)
		}
	}
}

// TestBodiesGrow: a body takes room as it arrives, whatever length it declares, and returns all; without room it is
// refused.
func TestBodiesGrow(t *testing.T) {
	keys := newTokenSet()
	for _, length := range []int64{-1, 8 << 20} {
		synctest.Test(t, func(t *testing.T) {
			b := newBackend()
			s := newAPI(b.backend(), Options{Access: keys})
			h := s.handler(nil)
			taken := func() int64 {
				s.bodies.mu.Lock()
				defer s.bodies.mu.Unlock()
				return s.bodies.taken
			}
			send := func() (body *io.PipeWriter, answer chan *httptest.ResponseRecorder) {
				reader, writer := io.Pipe()
				answer = make(chan *httptest.ResponseRecorder, 1)
				go func() {
					answer <- ask(t, h, "POST", "/api/v1/pools/mail/tasks", "", with(keys.secrets[Operator]), header("Content-Type", "application/json"), func(r *http.Request) {
						r.Body, r.ContentLength = reader, length
					})
				}()
				synctest.Wait()
				return writer, answer
			}
			body, answer := send()
			if n := taken(); n != bodyStep {
				t.Errorf("a body of which nothing has arrived has %d bytes", n)
			}
			_, _ = body.Write(bytes.Repeat([]byte(" "), 1<<20))
			synctest.Wait()
			if n := taken(); n < 1<<20 || n > 2<<20 {
				t.Errorf("a body of which 1 MiB has arrived has %d bytes", n)
			}
			_, _ = io.WriteString(body, `{"payload":1}`)
			_ = body.Close()
			if w := <-answer; w.Code != http.StatusCreated || taken() != 0 {
				t.Errorf("%d %s, and %d bytes are taken", w.Code, w.Body, taken())
			}
			done := len(b.changes)
			body, answer = send()
			give, _, _ := s.bodies.take(t.Context(), "token my-operator", maxBodiesEach-2*bodyStep, 0)
			_, _ = body.Write(bytes.Repeat([]byte(" "), 2*bodyStep))
			go func() { _, _ = body.Write([]byte(" ")) }() // until its reader has gone
			if w := <-answer; w.Code != http.StatusTooManyRequests || len(b.changes) != done {
				t.Errorf("%d %s, changes %v", w.Code, w.Body, b.changes[done:])
			}
			give()
			_ = body.CloseWithError(io.ErrClosedPipe)
			if n := taken(); n != 0 {
				t.Errorf("%d bytes are left", n)
			}
		})
	}
}

// deadlines is a connection that records its write deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// TestResponsesEnd: a client that does not read a large response is disconnected; the next response has its own
// deadline.
func TestResponsesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for size, bounded := range map[int]bool{10: false, smallBytes: false, smallBytes + 1: true, 4 << 20: true} {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			send(w, http.StatusOK, make([]byte, size))
			if w.Body.Len() != size || w.Header().Get("Content-Length") != fmt.Sprint(size) {
				t.Errorf("%d bytes: %d, %v", size, w.Body.Len(), w.Header())
			}
			if bounded != (len(w.set) == 2 && w.set[0].Equal(time.Now().Add(answerTime)) && w.set[1].IsZero()) || !bounded && len(w.set) > 0 {
				t.Errorf("%d bytes: deadlines %v", size, w.set)
			}
		}
	})
}

// TestPagesEnd: a page of large definitions ends before its limit, and the next ones have the rest.
func TestPagesEnd(t *testing.T) {
	t.Parallel()
	b := newBackend()
	b.jobs, b.set.Jobs = nil, map[string]jobs.Job{}
	const n = 400
	for i := range n {
		name := fmt.Sprintf("job-%03d", i)
		b.jobs = append(b.jobs, ledger.JobStatus{Job: wire.Job{Name: name}, Hash: "h"})
		b.set.Jobs[name] = jobs.Job{Description: strings.Repeat("<", limits.Description)}
	}
	h, seen, pages, next := b.api(Options{}), 0, 0, ""
	for {
		w := ask(t, h, "GET", "/api/v1/jobs?limit=500&cursor="+next, "")
		var list struct {
			Items []wire.Job
			Next  string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Body.Len() > paging.Bytes+200 || len(list.Items) == 0 {
			t.Fatalf("%d bytes, %d jobs: %v", w.Body.Len(), len(list.Items), err)
		}
		for _, job := range list.Items {
			if want := fmt.Sprintf("job-%03d", seen); job.Name != want {
				t.Fatalf("%s, want %s", job.Name, want)
			}
			seen++
		}
		pages++
		if next = list.Next; next == "" {
			break
		}
	}
	if seen != n || pages < 5 {
		t.Errorf("%d jobs on %d pages", seen, pages)
	}
}

// TestEnqueueResponse: the response to an enqueue is a list, without large payloads.
func TestEnqueueResponse(t *testing.T) {
	long := jobs.Task{Payload: []byte(`"` + strings.Repeat("x", 2000) + `"`)}
	short := jobs.Task{Payload: []byte(`"` + strings.Repeat("x", limits.ListedPayload-2) + `"`)}
	if leaveOut(&long); long.Payload != nil || long.PayloadSize != 2002 {
		t.Errorf("%+v", long)
	}
	if leaveOut(&short); len(short.Payload) != limits.ListedPayload || short.PayloadSize != limits.ListedPayload {
		t.Errorf("%+v", short)
	}
}
