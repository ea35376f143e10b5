package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	maxListBody = 8 << 20 // of a list of tasks
	maxTasks    = 1000
)

// enqueue enqueues one task or a list, all or none, and returns the tasks in order: 201, or 200 if all of them
// existed: their idempotency keys, or unique ones with their values.
func (s *server) enqueue(w http.ResponseWriter, r *http.Request, _ *query) error {
	body, err := readBody(w, r, maxListBody)
	if err != nil {
		return err
	}
	pool := r.PathValue("name")
	tasks, listed, err := readTasks(body, pool, r.Header.Values("Idempotency-Key"))
	if err != nil {
		return err
	}
	within := ""
	if listed && len(tasks) == 1 { // the store says which one of several
		within = "[0]"
	}
	locks := s.Replica.Set().Pools[pool].Locks
	for i := range tasks {
		tasks[i].By = printable(by(r), limits.By)
		at := ""
		if listed {
			at = fmt.Sprintf("[%d]", i)
		}
		if err := lockable(locks, tasks[i], at); err != nil {
			return err
		}
	}
	enqueued, err := s.store.Enqueue(r.Context(), tasks...)
	if refused, ok := errors.AsType[*jobs.KindError](err); ok {
		if listed {
			within = fmt.Sprintf("[%d]", refused.Index)
		}
		return noHandler(refused, within)
	}
	if err != nil {
		return unfit(err, within, 0) // by the time of the store
	}
	status := http.StatusOK
	rows := make([]*jobs.Task, len(enqueued))
	for i := range enqueued {
		e := &enqueued[i]
		leaveOut(&e.Task)
		rows[i] = &e.Task
		if !e.Existed {
			status = http.StatusCreated
		}
	}
	s.addReasons(r.Context(), rows...)
	if status == http.StatusCreated || slices.ContainsFunc(tasks, replaces) {
		s.Replica.Wake(pool)
	}
	made(w, enqueued[0].ID, len(enqueued))
	return replyList(w, status, enqueued, "", nil)
}

// lockable refuses a task that could not start, as the locks that this replica's definition gives its pool have no key with its payload. The one that
// governs when the task is claimed may be another, so it is no guard: the claim is. With force the task is taken.
func lockable(locks []jobs.Lock, task jobs.NewTask, within string) error {
	if len(locks) == 0 || task.Force {
		return nil
	}
	payload, _ := task.Payload.(json.RawMessage)
	return unfit(jobs.CheckLocks(locks, payload), within, 0)
}

// replaces reports whether a task may change one that exists, and so make it due.
func replaces(n jobs.NewTask) bool {
	return n.Unique != nil && n.Unique.OnConflict == jobs.ConflictReplaces
}

// noHandler is the error of a task that no live replica can run. If its pool has no handler at all, the field is not
// the kind.
func noHandler(refused *jobs.KindError, within string) error {
	field := within
	if len(refused.Kinds) > 0 {
		field = join(within, "kind")
	}
	return &problem{http.StatusUnprocessableEntity, wire.Problem{Code: "no_handler", Message: refused.Error(), Field: field}}
}

// leaveOut removes a large payload, as in lists.
func leaveOut(t *jobs.Task) {
	t.PayloadSize = max(t.PayloadSize, len(t.Payload))
	if t.PayloadSize > limits.ListedPayload {
		t.Payload = nil
	}
}

// readTasks decodes a body: an object, or a list of objects. keys is the header for one task.
func readTasks(body []byte, pool string, keys []string) (tasks []jobs.NewTask, listed bool, err error) {
	body = trim(body)
	if !bytes.HasPrefix(body, []byte("[")) {
		if len(body) > maxBody {
			return nil, false, tooLarge("", "the body is larger than %d bytes", maxBody)
		}
		task, err := readTask(body, "", pool)
		if err == nil {
			err = useHeader(&task, keys)
		}
		return []jobs.NewTask{task}, false, err
	}
	if len(keys) > 0 {
		return nil, true, malformed("Idempotency-Key", "the header is for one task; in a list each task has its own idempotency_key")
	}
	items, err := readItems(body)
	if err != nil {
		return nil, true, err
	}
	tasks = make([]jobs.NewTask, len(items))
	for i, item := range items {
		if tasks[i], err = readTask(item, fmt.Sprintf("[%d]", i), pool); err != nil {
			return nil, true, err
		}
	}
	return tasks, true, nil
}

// readItems stops at the first item beyond the limit.
func readItems(body []byte) ([]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	_, _ = dec.Token() // the bracket that the caller saw
	var items []json.RawMessage
	for dec.More() {
		if len(items) == maxTasks {
			return nil, tooLarge("", "more than %d tasks in one list; send them in several", maxTasks)
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
	var payload, unique json.RawMessage
	var runAt, expiresAt, timeout, backoff, once *string
	var attempts *int
	err := readObject(text, within, map[string]any{
		"payload":         &payload,
		"kind":            &task.Kind,
		"key":             &task.Key,
		"run_at":          &runAt,
		"expires_at":      &expiresAt,
		"max_attempts":    &attempts,
		"timeout":         &timeout,
		"backoff":         &backoff,
		"priority":        &task.Priority,
		"idempotency_key": &once,
		"tags":            &task.Tags,
		"force":           &task.Force,
		"unique":          &unique,
	})
	if err != nil {
		return task, err
	}
	if payload != nil {
		task.Payload = payload
	}
	if once != nil {
		if task.IdempotencyKey = *once; *once == "" { // as of a variable that is not set
			return task, invalid(join(within, "idempotency_key"), "is empty; leave it out for a task that may be added twice")
		}
	}
	if runAt != nil {
		if task.RunAt, err = readTime(*runAt, join(within, "run_at")); err != nil {
			return task, err
		}
	}
	if expiresAt != nil {
		if task.ExpiresAt, err = readTime(*expiresAt, join(within, "expires_at")); err != nil {
			return task, err
		}
	}
	if attempts != nil {
		if task.MaxAttempts = *attempts; *attempts == 0 {
			return task, invalid(join(within, "max_attempts"), "0 is out of range 1–%d", limits.Retries+1)
		}
	}
	if task.Timeout, err = readDuration(timeout, join(within, "timeout")); err != nil {
		return task, err
	}
	if task.Backoff, err = readDuration(backoff, join(within, "backoff")); err != nil {
		return task, err
	}
	if task.Unique, err = readUnique(unique, join(within, "unique")); err != nil {
		return task, err
	}
	return task, check(task, within)
}

// readUnique is nil for nothing, and for null.
func readUnique(text []byte, within string) (*jobs.Unique, error) {
	if text == nil || string(text) == "null" {
		return nil, nil
	}
	var u jobs.Unique
	var lasts *string // a duration
	err := readObject(text, within, map[string]any{"by": &u.By, "for": &lasts, "while": &u.While, "on_conflict": &u.OnConflict})
	if err == nil && lasts != nil {
		u.For, err = duration.Parse(*lasts)
		switch {
		case err != nil:
			err = malformed(join(within, "for"), "%v", err)
		case u.For == 0:
			err = invalid(join(within, "for"), "0s is out of range 1ms–366d; leave it out where no time is meant")
		}
	}
	return &u, err
}

func readTime(text, field string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, malformed(field, "must be a time as in 2006-01-02T15:04:05Z")
	}
	return at.UTC(), nil
}

// readDuration reads what a task has in place of its pool's; nil is 0, which stands for that.
func readDuration(text *string, field string) (time.Duration, error) {
	if text == nil {
		return 0, nil
	}
	d, err := duration.Parse(*text)
	if err == nil && d == 0 {
		return d, invalid(field, "0s is out of range 1ms–366d; leave it out for that of the pool")
	}
	if err != nil {
		return d, malformed(field, "%s", err)
	}
	return d, nil
}

// check validates the task with package jobs, and returns the first problem.
func check(task jobs.NewTask, within string) error {
	_, err := task.Encode()
	payload, _ := task.Payload.(json.RawMessage)
	return unfit(err, within, len(payload))
}

// alsoSaid is how many further problems a refusal names.
const alsoSaid = 4

// unfit is the refusal of a task with a payload of this size for what package jobs says of it; nil if that is nothing. The field is that of the first
// problem, and the message goes on to the others, each with its field.
func unfit(err error, within string, payload int) error {
	wrong, ok := errors.AsType[*jobs.FieldError](err)
	if !ok {
		return err
	}
	refuse := invalid
	if wrong.Path == "payload" && payload > jobs.MaxPayload {
		refuse = tooLarge
	}
	message, others := wrong.Problem, 0
	if several, is := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); is {
		for _, one := range several.Unwrap() {
			if other, is := one.(*jobs.FieldError); is && other != wrong {
				if others++; others <= alsoSaid {
					message += "; " + join(within, other.Path) + ": " + other.Problem
				}
			}
		}
	}
	if left := others - alsoSaid; left > 0 {
		message += fmt.Sprintf("; and %d more", left)
	}
	return refuse(join(within, wrong.Path), "%s", message)
}

// useHeader applies the idempotency key of the header, which must not contradict the body's.
func useHeader(task *jobs.NewTask, keys []string) error {
	const field = "Idempotency-Key"
	switch {
	case len(keys) == 0:
		return nil
	case len(keys) > 1:
		return malformed(field, "the header is given %d times", len(keys))
	case keys[0] == "":
		return malformed(field, "the header is empty")
	case task.IdempotencyKey != "" && task.IdempotencyKey != keys[0]:
		return malformed(field, "header and body give different keys")
	}
	_, err := jobs.NewTask{Pool: task.Pool, IdempotencyKey: keys[0]}.Encode()
	if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
		return invalid(field, "%s", wrong.Problem)
	}
	task.IdempotencyKey = keys[0]
	return err
}
