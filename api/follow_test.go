//go:build !fuzz

package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestFollowLogs: what comes of an output is answered as soon as it is there, and each byte once; a change of the task is, too. What is wrong is said at once.
func TestFollowLogs(t *testing.T) {
	t.Parallel()
	s, session := onSQLite(t)
	h := New(Backend{Store: s, Replica: newBackend()}, Options{})
	r := s.Sides().Replica
	id := decode[page](t, ask(t, h, "POST", "/api/v1/pools/mail/tasks", `{"kind":"welcome"}`).Body.String()).Items[0].ID
	path, at := "/api/v1/tasks/"+id+"/logs", ""
	var took time.Duration
	follow := func(wait string) wire.OutputNews {
		t.Helper()
		began := time.Now()
		w := ask(t, h, "GET", path+"?follow="+url.QueryEscape(at)+"&wait="+wait, "")
		took = time.Since(began)
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		news := decode[wire.OutputNews](t, w.Body.String())
		at = news.Next
		return news
	}
	// soon has what do does while a request waits; the answer comes before the wait is over.
	soon := func(do func()) wire.OutputNews {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(200 * time.Millisecond)
			do()
		}()
		news := follow("20s")
		<-done
		if took > 15*time.Second {
			t.Errorf("the answer took %v", took)
		}
		return news
	}
	text := func(n wire.OutputNews) string {
		var all []string
		for _, p := range n.Items {
			all = append(all, fmt.Sprintf("%d:%d-%d:%s", p.Attempt, p.At, p.LeftOut, p.Text))
		}
		return fmt.Sprint(n.Task.State, " ", strings.Join(all, " "), " ", n.Ended)
	}
	want := func(n wire.OutputNews, is string) {
		t.Helper()
		if text(n) != is {
			t.Errorf("answered was %q, want %q", text(n), is)
		}
	}

	want(follow("20s"), "pending  false")
	if want(follow("1s"), "pending  false"); took < time.Second {
		t.Errorf("an answer without news took %v", took)
	}
	var task jobs.Task
	want(soon(func() { task = claimWelcome(t, s.Sides().Replica, session) }), "running  false")
	write := func(first int64, data string) {
		if ours, err := r.WriteOutput(context.WithoutCancel(t.Context()), session, []ledger.Chunk{{TaskID: id, Token: task.Token, First: first, Data: []byte(data)}}); err != nil || !ours[0] {
			t.Error(ours, err)
		}
	}
	want(soon(func() { write(0, "one \xff <b>\n") }), "running 1:0-0:one \uFFFD <b>\n false")
	want(soon(func() { write(20, "two") }), "running 1:20-10:two false")
	if w := ask(t, h, "GET", path, ""); w.Body.String() != "one \uFFFD <b>\n\n… 10 bytes left out …\ntwo" {
		t.Errorf("meanwhile the output is %q", w.Body)
	}
	want(soon(func() {
		_, _ = r.Report(context.WithoutCancel(t.Context()), session, []ledger.Progress{{TaskID: id, Token: task.Token, Done: 0.5}})
	}), "running  false")
	end := ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Output: []byte("one \xff <b>\n..........two, three"), Chunked: true}
	want(soon(func() { _, _ = r.Finish(context.WithoutCancel(t.Context()), session, []ledger.Result{end}) }), "succeeded 1:23-0:, three true")
	if want(follow("20s"), "succeeded  true"); took > 10*time.Second {
		t.Errorf("of a task that has ended the answer took %v", took)
	}
	at = ""
	want(follow("0s"), "succeeded 1:0-0:one \uFFFD <b>\n..........two, three true")

	for query, field := range map[string]string{
		"follow=x": "follow", "follow=1.2.3": "follow", "follow=1.-2.3.00000000": "follow", "follow=1.2.3.00000000x": "follow", "follow=+1.2.3.00000000": "follow",
		"follow=&wait=soon": "wait", "follow=&wait=31s": "wait", "follow=&wait=-1s": "wait", "follow=&attempt=1": "attempt", "wait=1s": "wait", "follow=&from=1": "from",
	} {
		if w := ask(t, h, "GET", path+"?"+query, ""); w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if w := ask(t, h, "GET", "/api/v1/tasks/nope/logs?follow=", ""); w.Code != 404 {
		t.Errorf("of no task: %d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "HEAD", path+"?follow=&wait=20s", ""); w.Code != 200 {
		t.Errorf("HEAD: %d %s", w.Code, w.Body)
	}
}

// claimWelcome claims the one task of kind welcome in pool mail.
func claimWelcome(t *testing.T, r ledger.Store, session string) jobs.Task {
	t.Helper()
	got, err := r.Claim(context.WithoutCancel(t.Context()), ledger.Claim{
		Admission: ledger.Admission{
			Session: session, Replica: "r1", Pools: map[string]ledger.Share{"mail": {Hash: "h", Room: 1}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
		},
		Pool: "mail", ID: "1", Now: func(now time.Time) (time.Time, error) { return now, nil }, Scope: ledger.Scope{Kinds: []string{"welcome"}},
	})
	if err != nil || len(got.Tasks) != 1 {
		t.Error(got, err)
		return jobs.Task{}
	}
	return *got.Tasks[0].Task
}
