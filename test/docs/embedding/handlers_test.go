package embedding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

type Mailer struct{ url string }

type Letter struct{ To, Text string }

var errNoAddress = errors.New("no address")

func (m *Mailer) send(ctx context.Context, t jobs.Task, l Letter) error {
	if l.To == "" {
		return jobs.Permanent(errNoAddress) // another attempt would not help
	}
	request, err := http.NewRequestWithContext(ctx, "POST", m.url+"?to="+l.To, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Idempotency-Key", t.IdempotencyKey) // the same over all attempts
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err // another attempt, after the pool's backoff
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		return jobs.RetryAfter(time.Minute, errors.New("the mail server is busy"))
	case answer.StatusCode >= 300:
		return fmt.Errorf("the mail server said %s", answer.Status)
	}
	return nil
}

func TestHandlers(t *testing.T) {
	answers := []int{429, 500, 200}
	keys := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")]++
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	m := &Mailer{server.URL}
	b := schedulertest.New(t, jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Func(m.send), Retries: jobs.Retries{Limit: 3, Backoff: time.Millisecond}}},
	}, schedulertest.Options{})
	b.Enqueue(jobs.NewTask{Pool: "mail", Payload: Letter{}})
	if got := b.Drain(); len(got) != 1 || got[0].State != jobs.StateFailed || got[0].Attempt != 1 {
		t.Errorf("%+v", got)
	}
	task := b.Enqueue(jobs.NewTask{Pool: "mail", Payload: Letter{To: "ada"}})[0]
	b.Drain()
	if wait := time.Until(b.Pending()[0].RunAt); wait < 30*time.Second {
		t.Errorf("it would be tried again in %v", wait)
	}
	for range 2 { // what the second and third attempt would be told
		err := m.send(t.Context(), task, Letter{To: "ada"})
		if _, again := jobs.RetryDelay(err); again || jobs.IsPermanent(err) {
			t.Error(err)
		}
	}
	if keys[task.ID] != 3 {
		t.Errorf("%v", keys)
	}
}
