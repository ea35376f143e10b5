package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// listTasks lists tasks, the latest first. An unknown pool or job is an error, not an empty list.
func (s *server) listTasks(w http.ResponseWriter, r *http.Request, q *query) error {
	filter := wire.TaskFilter{Pool: q.name("pool"), Job: q.name("job"), State: oneOf(q, "state", states...), Fingerprint: q.fingerprint(), TaskDetails: q.details(), Page: q.page()}
	if q.err != nil {
		return q.err
	}
	rows, next, err := s.store.Tasks(r.Context(), filter)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if err := s.known(r.Context(), filter.Pool, filter.Job); err != nil {
			return err
		}
	}
	waiting := make([]*jobs.Task, len(rows))
	for i := range rows {
		waiting[i] = &rows[i]
	}
	s.addReasons(r.Context(), waiting...)
	return replyList(w, http.StatusOK, rows, next, nil)
}

// known returns jobs.ErrNotFound for a pool or job, if given, that has no row and is not in this replica's
// configuration.
func (s *server) known(ctx context.Context, pool, job string) error {
	set := s.Replica.Set()
	if _, has := set.Jobs[job]; job != "" && !has {
		if _, err := s.jobRow(ctx, job); err != nil {
			return err
		}
	}
	if _, has := set.Pools[pool]; pool != "" && !has {
		_, err := s.poolRow(ctx, pool)
		return err
	}
	return nil
}

// addReasons adds to pending tasks that no live replica or worker can run the reason, after that of their last attempt: no
// handler for the kind, no worker that takes it, or no replica with the job's labels. The store is not asked about what this replica can run
// itself.
func (s *server) addReasons(ctx context.Context, tasks ...*jobs.Task) {
	asked := waiting{s: s, set: s.Replica.Set()}
	for _, t := range tasks {
		if t.State != jobs.StatePending {
			continue
		}
		code, why, err := asked.why(ctx, *t)
		if err != nil {
			return // what was asked for has an answer
		}
		if why == "" {
			continue
		}
		if t.Reason != "" {
			why = t.Reason + "; " + why
		}
		t.Reason, t.ReasonCode = why, code
	}
}

// waiting caches the answers for the tasks of one list.
type waiting struct {
	s     *server
	set   jobs.Set
	pools []ledger.PoolStatus
	peers []ledger.Peer
}

// why is empty if a live replica can run the task.
func (w *waiting) why(ctx context.Context, t jobs.Task) (code reason.Code, why string, err error) {
	if t.Job != "" {
		return w.ofJob(ctx, t)
	}
	if w.s.Replica.Runs(t.Pool, t.Kind) {
		return "", "", nil
	}
	if code, why, err = w.inPool(ctx, t.Pool, t.Kind); code == "" && err == nil {
		code, why, err = w.withLabels(ctx, w.set.RunsOn(t.Pool, ""), "pool")
	}
	return code, why, err
}

// ofJob is why for a task of a job, as far as this replica's configuration says where those run. Workers have no labels.
func (w *waiting) ofJob(ctx context.Context, t jobs.Task) (code reason.Code, why string, err error) {
	switch runsOn := w.set.RunsOn(w.set.Jobs[t.Job].WithDefaults().Pool, t.Job); {
	case len(runsOn) > 0:
		return w.withLabels(ctx, runsOn, "job")
	case jobByWorkers(w.set, t):
		if code, why, err = w.inPool(ctx, t.Pool, t.Kind); code != reason.NoWorker {
			code, why = "", "" // another configuration governs the pool, or none
		}
	}
	return code, why, err
}

// withLabels is whyNoLabels, with its code.
func (w *waiting) withLabels(ctx context.Context, runsOn map[string]string, of string) (code reason.Code, why string, err error) {
	if len(runsOn) == 0 {
		return "", "", nil
	}
	if w.peers == nil {
		if w.peers, err = w.s.store.Replicas(ctx); err != nil {
			return "", "", err
		}
	}
	return reason.NoReplica, whyNoLabels(runsOn, w.peers, of), nil
}

// inPool is whyUnrunnable of a pool.
func (w *waiting) inPool(ctx context.Context, pool, kind string) (code reason.Code, why string, err error) {
	if w.pools == nil {
		if w.pools, err = w.s.store.Pools(ctx); err != nil {
			return "", "", err
		}
	}
	if i := slices.IndexFunc(w.pools, func(p ledger.PoolStatus) bool { return p.Name == pool }); i >= 0 {
		code, why = whyUnrunnable(w.pools[i], kind)
	}
	return code, why, nil
}

// getTask returns a task with its earlier attempts, of which the last one is the task's own fields, and its result.
func (s *server) getTask(w http.ResponseWriter, r *http.Request, _ *query) error {
	task, attempts, err := s.store.Task(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	var result []byte
	if task.State.Ended() {
		if result, err = s.store.Result(r.Context(), task.ID); err != nil {
			return err
		}
	}
	s.addReasons(r.Context(), &task)
	one := wire.NewTask(task, attempts)
	one.Result = result
	return reply(w, http.StatusOK, one)
}

// logsOfTask returns the output of an attempt, always as text: ?attempt= from 1, default the latest with output. Of a running one it is what has
// arrived. With ?follow= it goes on, see followLogs.
func (s *server) logsOfTask(w http.ResponseWriter, r *http.Request, q *query) error {
	if q.err == nil && q.values.Has("follow") {
		return s.followLogs(w, r, q)
	}
	if q.values.Has("wait") {
		q.refuse("wait", "is for follow; add it, or remove wait")
	}
	attempt := q.number("attempt", 0, 1, 1<<30)
	if q.err != nil {
		return q.err
	}
	id := r.PathValue("id")
	output, err := s.store.Output(r.Context(), id, attempt)
	if errors.Is(err, jobs.ErrNotFound) {
		if _, _, err := s.store.Task(r.Context(), id); err != nil {
			return err
		}
		return notFound("no output of this task is kept: it has written nothing yet, or the retention of outputs has passed")
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", id+".txt"))
	send(w, http.StatusOK, bytes.ToValidUTF8(output, []byte("\uFFFD")))
	return nil
}

func (s *server) cancelTask(w http.ResponseWriter, r *http.Request, q *query) error {
	if err := readKeys(w, r, q, nil); err != nil {
		return err
	}
	task, err := s.store.Cancel(r.Context(), r.PathValue("id"), by(r))
	if err != nil {
		return err
	}
	s.Replica.Wake()
	return reply(w, http.StatusOK, task)
}

// updateTask changes a pending task: the keys that are there.
func (s *server) updateTask(w http.ResponseWriter, r *http.Request, q *query) error {
	change, err := readChange(w, r, q)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if change.Payload != nil {
		was, _, err := s.store.Task(r.Context(), id)
		if err != nil {
			return err
		}
		if err := lockable(s.Replica.Set().Pools[was.Pool].Locks, jobs.NewTask{Payload: change.Payload}, ""); err != nil {
			return err
		}
	}
	task, err := s.store.UpdateTask(r.Context(), id, change)
	if err != nil {
		return unfit(err, "", 0) // beside what the task has
	}
	s.Replica.Wake(task.Pool)
	s.addReasons(r.Context(), &task)
	return reply(w, http.StatusOK, task)
}

func readChange(w http.ResponseWriter, r *http.Request, q *query) (change wire.TaskChange, err error) {
	var runAt, expiresAt, timeout, backoff *string
	err = readKeys(w, r, q, map[string]any{
		"run_at": &runAt, "expires_at": &expiresAt, "priority": &change.Priority, "payload": &change.Payload, "tags": &change.Tags,
		"max_attempts": &change.MaxAttempts, "timeout": &timeout, "backoff": &backoff,
	})
	if err == nil && runAt != nil {
		change.RunAt = new(time.Time)
		*change.RunAt, err = readTime(*runAt, "run_at")
	}
	if err == nil && expiresAt != nil {
		change.ExpiresAt = new(time.Time)
		if *expiresAt != "" {
			*change.ExpiresAt, err = readTime(*expiresAt, "expires_at")
		}
	}
	for _, own := range []struct {
		field string
		text  *string
		is    **jobs.Duration
	}{{"timeout", timeout, &change.Timeout}, {"backoff", backoff, &change.Backoff}} {
		if err == nil && own.text != nil {
			*own.is = new(jobs.Duration)
			if *own.text == "" {
				continue
			}
			if wrong := (*own.is).UnmarshalText([]byte(*own.text)); wrong != nil {
				err = malformed(own.field, "%s", wrong)
			}
		}
	}
	if err == nil && change.None() {
		err = malformed("", "there is nothing to change; send run_at, expires_at, priority, payload, tags, max_attempts, timeout or backoff")
	}
	if err != nil {
		return change, err
	}
	_, err = change.Encode()
	return change, unfit(err, "", len(change.Payload))
}

// retryTask enqueues an ended task again. One that no live replica can run needs "force": true in the parameters or the
// body; one whose job may have a running lost attempt, the force of runJob.
func (s *server) retryTask(w http.ResponseWriter, r *http.Request, q *query) error {
	force, err := readForce(w, r, q)
	if err != nil {
		return err
	}
	task, err := s.Replica.Retry(r.Context(), r.PathValue("id"), by(r), force)
	if refused, ok := errors.AsType[*jobs.KindError](err); ok {
		return noHandler(refused, "")
	}
	if err != nil {
		return err
	}
	made(w, task.ID, 1)
	s.addReasons(r.Context(), &task)
	return reply(w, http.StatusCreated, task)
}
