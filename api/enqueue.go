package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	maxListBody = 8 << 20 // of a list of tasks
	maxTasks    = 1000
	maxPayload  = 256 << 10
	maxPriority = 100
	maxKey      = 255
	maxTags     = 32
	maxTag      = 128
)

// enqueue takes one task, or a list of them that are enqueued all or none, and answers the tasks in
// order: 201, or 200 if the idempotency keys of all of them were used before.
func (s *server) enqueue(w http.ResponseWriter, r *http.Request) error {
	if q := readQuery(r); q.err != nil {
		return q.err
	}
	body, err := readBody(w, r, maxListBody)
	if err != nil {
		return err
	}
	pool := r.PathValue("name")
	tasks, err := readTasks(body, pool, r.Header.Values("Idempotency-Key"))
	if err != nil {
		return err
	}
	enqueued, err := s.Writer.Enqueue(r.Context(), tasks...)
	if err != nil {
		return err
	}
	status := http.StatusOK
	items := make([]jobs.Task, len(enqueued))
	for i, e := range enqueued {
		items[i] = e.Task
		if !e.Existed {
			status = http.StatusCreated
		}
	}
	if status == http.StatusCreated {
		s.Replica.Wake(pool)
	}
	return replyList(w, status, items, "")
}

// readTasks decodes a body: an object, or a list of objects. keys is the header for one task.
func readTasks(body []byte, pool string, keys []string) ([]jobs.NewTask, error) {
	body = bytes.TrimSpace(body)
	if !bytes.HasPrefix(body, []byte("[")) {
		if len(body) > maxBody {
			return nil, tooLarge("", "the body is larger than %d bytes", maxBody)
		}
		task, err := readTask(body, "", pool)
		if err == nil {
			err = useHeader(&task, keys)
		}
		return []jobs.NewTask{task}, err
	}
	if len(keys) > 0 {
		return nil, malformed("Idempotency-Key", "the header is for one task; in a list each task has its own idempotency_key")
	}
	items, err := readItems(body)
	if err != nil {
		return nil, err
	}
	tasks := make([]jobs.NewTask, len(items))
	for i, item := range items {
		if tasks[i], err = readTask(item, fmt.Sprintf("[%d]", i), pool); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// readItems stops at the first item beyond the limit, however many there are.
func readItems(body []byte) ([]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	_, _ = dec.Token() // the bracket that the caller saw
	var items []json.RawMessage
	for dec.More() {
		if len(items) == maxTasks {
			return nil, tooLarge("", "more than %d tasks in one list", maxTasks)
		}
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return nil, notJSON("", err)
		}
		items = append(items, item)
	}
	if _, err := dec.Token(); err != nil {
		return nil, notJSON("", err)
	}
	if err := end(dec); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, invalid("", "the list has no tasks")
	}
	return items, nil
}

func readTask(text []byte, within, pool string) (jobs.NewTask, error) {
	task := jobs.NewTask{Pool: pool}
	var payload json.RawMessage
	var runAt *string
	err := readObject(text, within, map[string]any{
		"payload":         &payload,
		"kind":            &task.Kind,
		"run_at":          &runAt,
		"priority":        &task.Priority,
		"idempotency_key": &task.IdempotencyKey,
		"tags":            &task.Tags,
	})
	if err != nil {
		return task, err
	}
	if payload != nil {
		task.Payload = payload
	}
	if runAt != nil {
		if task.RunAt, err = time.Parse(time.RFC3339, *runAt); err != nil {
			return task, malformed(join(within, "run_at"), "must be a time as in 2006-01-02T15:04:05Z")
		}
		task.RunAt = task.RunAt.UTC()
	}
	return task, check(task, len(payload), within)
}

func check(task jobs.NewTask, payload int, within string) error {
	switch {
	case payload > maxPayload:
		return tooLarge(join(within, "payload"), "the payload is larger than %d bytes", maxPayload)
	case task.Kind != "" && !jobs.NamePattern.MatchString(task.Kind):
		return invalid(join(within, "kind"), "%s is not a name", quote(task.Kind))
	case !task.RunAt.IsZero() && outOfEra(task.RunAt):
		return invalid(join(within, "run_at"), "must be from 1970 to 2199")
	case task.Priority < -maxPriority || task.Priority > maxPriority:
		return invalid(join(within, "priority"), "must be from -%d to %d", maxPriority, maxPriority)
	case len(task.IdempotencyKey) > maxKey || !plain(task.IdempotencyKey):
		return invalid(join(within, "idempotency_key"), "must be at most %d bytes, without control characters", maxKey)
	case len(task.Tags) > maxTags:
		return invalid(join(within, "tags"), "more than %d tags", maxTags)
	}
	for _, tag := range task.Tags {
		if tag == "" || len(tag) > maxTag || !plain(tag) {
			return invalid(join(within, "tags"), "a tag must be 1 to %d bytes, without control characters", maxTag)
		}
	}
	return nil
}

func plain(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) }

// useHeader takes the idempotency key of the header, which must not contradict the body's.
func useHeader(task *jobs.NewTask, keys []string) error {
	const field = "Idempotency-Key"
	switch {
	case len(keys) == 0:
		return nil
	case len(keys) > 1:
		return malformed(field, "the header stands there %d times", len(keys))
	case keys[0] == "":
		return malformed(field, "the header is empty")
	case len(keys[0]) > maxKey || !plain(keys[0]) || strings.ToValidUTF8(keys[0], "") != keys[0]:
		return invalid(field, "must be at most %d bytes of text", maxKey)
	case task.IdempotencyKey != "" && task.IdempotencyKey != keys[0]:
		return malformed(field, "header and body give different keys")
	}
	task.IdempotencyKey = keys[0]
	return nil
}
