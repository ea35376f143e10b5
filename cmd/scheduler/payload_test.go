package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// letter is a payload of a Go program.
type letter struct {
	HTML string `json:"html"`
}

// TestOnePayload: a payload is the same bytes whichever way it comes, so that tasks with one idempotency key, and unique ones with the same
// payload, meet; and it is as long.
func TestOnePayload(t *testing.T) {
	t.Parallel()
	r := startReplica(t)
	r.fine(t, "pools", "pause", "mail")
	c, err := client.New(r.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), "sqlite", r.file, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	is := letter{`<a href="?a=1&b=2">` + "\u2028</a>"}
	const text = `{"html":"<a href=\"?a=1&b=2\">\u2028</a>"}`
	byClient := func(enqueue func(jobs.NewTask) ([]jobs.Enqueued, error), payload any) func(*testing.T, jobs.NewTask) string {
		return func(t *testing.T, task jobs.NewTask) string {
			task.Payload = payload
			made, err := enqueue(task)
			if err != nil {
				t.Fatal(err)
			}
			return made[0].ID
		}
	}
	inClient := func(task jobs.NewTask) ([]jobs.Enqueued, error) { return c.Enqueue(t.Context(), task) }
	inStore := func(task jobs.NewTask) ([]jobs.Enqueued, error) { return st.Enqueue(t.Context(), task) }
	byCommand := func(t *testing.T, task jobs.NewTask, stdin string, args ...string) string {
		args = append([]string{"tasks", "enqueue", task.Pool}, args...)
		if task.Unique != nil {
			args = append(args, "--unique-by", "payload")
		}
		code, stdout, stderr := r.scheduler(t, stdin, args...)
		if code != exitFine {
			t.Fatalf("%d %q", code, stderr)
		}
		return strings.TrimSpace(stdout)
	}
	ways := map[string]func(*testing.T, jobs.NewTask) string{
		"client, text":  byClient(inClient, json.RawMessage(text)),
		"client, value": byClient(inClient, is),
		"store, text":   byClient(inStore, json.RawMessage(text)),
		"store, value":  byClient(inStore, is),
		"command": func(t *testing.T, task jobs.NewTask) string {
			args := []string{"--payload", text}
			if task.IdempotencyKey != "" {
				args = append(args, "--idempotency-key", task.IdempotencyKey)
			}
			return byCommand(t, task, "", args...)
		},
		"command, many": func(t *testing.T, task jobs.NewTask) string {
			line := `{"payload":` + text + `}`
			if task.IdempotencyKey != "" {
				line = `{"idempotency_key":"` + task.IdempotencyKey + `","payload":` + text + `}`
			}
			return byCommand(t, task, line+"\n", "--many")
		},
	}
	for name, task := range map[string]jobs.NewTask{
		"by its idempotency key": {Pool: "mail", IdempotencyKey: "<k&1>"},
		"by its payload":         {Pool: "mail", Unique: &jobs.Unique{By: []string{"payload"}}},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"idempotency_key":"<k&1>","payload":` + text + `}`
			if task.Unique != nil {
				body = `{"unique":{"by":["payload"]},"payload":` + text + `}`
			}
			first := post(t, r.url+"/api/v1/pools/mail/tasks", body)
			for way, enqueue := range ways {
				if id := enqueue(t, task); id != first {
					t.Errorf("%s: another task", way)
				}
			}
			if stored, _, err := st.Task(t.Context(), first); err != nil || string(stored.Payload) != text {
				t.Errorf("stored as %s, %v", stored.Payload, err)
			}
		})
	}
	const large = jobs.MaxPayload - len(`{"html":""}`)
	for _, enqueue := range []func(jobs.NewTask) ([]jobs.Enqueued, error){inClient, inStore} {
		made, err := enqueue(jobs.NewTask{Pool: "mail", Payload: letter{strings.Repeat("<", large)}})
		if err != nil || made[0].PayloadSize != jobs.MaxPayload {
			t.Errorf("the largest payload: %v", err)
		}
	}
}

// post sends a body, and returns the id of the task that was added or met.
func post(t *testing.T, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode > 299 {
		t.Fatalf("%d %v %s", res.StatusCode, err, answer)
	}
	var list struct{ Items []struct{ ID string } }
	if err := json.Unmarshal(answer, &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v %s", err, answer)
	}
	return list.Items[0].ID
}
