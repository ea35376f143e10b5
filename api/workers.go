package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Workers is what a Replica has that serves workers; see docs/workers.md for what they may rely on. A *scheduler.Scheduler has it.
type Workers interface {
	// ClaimFor claims tasks, waits for them, and opens the worker's session.
	ClaimFor(ctx context.Context, c wire.WorkerClaim) (wire.Claim, error)
	// HeartbeatFor renews the session, notes what the attempt reports, and says how it stands.
	HeartbeatFor(ctx context.Context, a wire.WorkerAttempt, said wire.WorkerReport) (wire.Heartbeat, error)
	// EndFor records the end of an attempt.
	EndFor(ctx context.Context, a wire.WorkerAttempt, e wire.WorkerEnd) (jobs.Task, error)
	// LeaveFor ends a session, and returns how many attempts it had.
	LeaveFor(ctx context.Context, c wire.WorkerCaller, session string) (stopped int, err error)
}

const (
	maxClaim     = 100 // tasks of one claim
	maxKinds     = 100
	maxHave      = 10_000
	claimWait    = 30 * time.Second // unless the claim says
	maxClaimWait = time.Minute
	maxName      = 64

	maxClaims     = 400 // that wait, or are answered
	maxClaimsEach = 200
	firstClaims   = 20
)

// workers is what serves workers, or the error that this process has no replica.
func (s *server) workers() (Workers, error) {
	if w, ok := s.Replica.(Workers); ok {
		return w, nil
	}
	return nil, needsReplica("a worker's call needs the definitions of pools")
}

// workerCaller is the caller of a worker's call.
func workerCaller(r *http.Request) wire.WorkerCaller {
	who := callerOf(r)
	return wire.WorkerCaller{Owner: who.Name, Pools: who.Pools}
}

// claim answers a worker's claim, at once or after a wait for tasks.
func (s *server) claim(w http.ResponseWriter, r *http.Request, q *query) error {
	workers, err := s.workers()
	if err != nil {
		return err
	}
	c, err := readClaim(w, r, q)
	if err != nil {
		return err
	}
	if c.Pools != nil && !slices.Contains(c.Pools, c.Pool) {
		return newProblem(http.StatusForbidden, "forbidden", "the token is for workers of "+plural(c.Pools)+", and this is pool "+quote(c.Pool))
	}
	leave, all, ok := s.claims.take(r.Context(), s.party(r), 1, 0)
	if !ok {
		return busy(w, time.Second, all, "claims that wait", maxClaims, maxClaimsEach)
	}
	defer leave()
	// The server's own bounds are for requests that are answered at once.
	stream := http.NewResponseController(w)
	_ = stream.SetReadDeadline(time.Time{})
	_ = stream.SetWriteDeadline(time.Now().Add(c.Wait + 2*answerTime))
	c.Stop = stopping(r.Context())
	got, err := workers.ClaimFor(r.Context(), c)
	if errors.Is(err, ledger.ErrManyWorkers) {
		return busySessions(w)
	}
	if err != nil {
		return unfit(err, "", 0)
	}
	return reply(w, http.StatusOK, got)
}

// busySessions refuses a claim that would open one more session than the caller may have.
func busySessions(w http.ResponseWriter) error {
	w.Header().Set("Retry-After", "10")
	return newProblem(http.StatusTooManyRequests, "busy", fmt.Sprintf("%d sessions of workers with this token live, and no more may: "+
		"claim with the session that a claim has answered, and leave it at the end; give more workers than that tokens of their own", ledger.MostWorkers))
}

func plural(pools []string) string {
	if len(pools) == 1 {
		return "pool " + quote(pools[0])
	}
	return "the pools " + strings.Join(pools, ", ")
}

func readClaim(w http.ResponseWriter, r *http.Request, q *query) (c wire.WorkerClaim, err error) {
	c = wire.WorkerClaim{WorkerCaller: workerCaller(r), Pool: r.PathValue("name"), Name: "worker", Max: 1, Wait: claimWait}
	var wait, name *string
	err = readKeys(w, r, q, map[string]any{"session": &c.Session, "name": &name, "kinds": &c.Kinds, "max": &c.Max, "wait": &wait, "have": &c.Have})
	if err != nil {
		return c, err
	}
	if wait != nil {
		if c.Wait, err = duration.Parse(*wait); err != nil {
			return c, malformed("wait", "%s", err)
		}
	}
	if name != nil {
		c.Name = *name
	}
	switch {
	case !naming.Pattern.MatchString(c.Name):
		return c, invalid("name", "%s is not a name; up to %d of a-z A-Z 0-9 . _ -, the first a letter or digit", quote(c.Name), maxName)
	case c.Session != "" && !values["{session}"].MatchString(c.Session):
		return c, invalid("session", "%s is not one that a claim has opened", quote(c.Session))
	case c.Max < 1 || c.Max > maxClaim:
		return c, invalid("max", "%d is out of range 1–%d", c.Max, maxClaim)
	case c.Wait < 0 || c.Wait > maxClaimWait:
		return c, invalid("wait", "%v is out of range 0s–%v", c.Wait, maxClaimWait)
	case c.Kinds != nil && len(c.Kinds) == 0:
		return c, invalid("kinds", `has no kinds; leave it out for tasks without a kind, or say [""]`)
	case len(c.Kinds) > maxKinds:
		return c, invalid("kinds", "has %d kinds, at most %d are allowed", len(c.Kinds), maxKinds)
	case len(c.Have) > maxHave:
		return c, invalid("have", "has %d tasks, at most %d are allowed", len(c.Have), maxHave)
	}
	for i, kind := range c.Kinds {
		if kind != "" && !naming.Pattern.MatchString(kind) {
			return c, invalid(fmt.Sprintf("kinds[%d]", i), "%s is not the name of a kind", quote(kind))
		}
	}
	return c, nil
}

// heartbeat renews the session of an attempt's worker.
func (s *server) heartbeat(w http.ResponseWriter, r *http.Request, q *query) error {
	workers, err := s.workers()
	if err != nil {
		return err
	}
	var said report
	a, err := s.readAttempt(w, r, q, true, map[string]any{"progress": &said.done, "progress_text": &said.text, "output": &said.output, "output_at": &said.at})
	if err != nil {
		return err
	}
	var news wire.WorkerReport
	if news.Progress, err = said.progress(); err == nil {
		news.Output, err = said.written()
	}
	if err != nil {
		return err
	}
	beat, err := workers.HeartbeatFor(r.Context(), a, news)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, beat)
}

// readAttempt reads the session and the token of a call, and the keys in more. Without a session, where that may be, the attempt is one that a
// server has accepted.
func (s *server) readAttempt(w http.ResponseWriter, r *http.Request, q *query, session bool, more map[string]any) (a wire.WorkerAttempt, err error) {
	a = wire.WorkerAttempt{WorkerCaller: workerCaller(r), Task: r.PathValue("id")}
	if _, err := s.workers(); err != nil {
		return a, err
	}
	keys := map[string]any{"session": &a.Session, "token": &a.Token}
	for key, target := range more {
		keys[key] = target
	}
	err = readKeys(w, r, q, keys)
	switch {
	case err != nil:
		return a, err
	case a.Session == "" && session:
		return a, invalid("session", "is missing; send that of the claim. A server that has accepted a request has none: it ends the attempt with complete, fail or snooze, and sends no heartbeats")
	case (a.Session != "" || session) && !values["{session}"].MatchString(a.Session):
		return a, invalid("session", "%s is not one that a claim has opened; send that of the claim", quote(a.Session))
	case a.Token < 1:
		return a, invalid("token", "%d is none; send that of the claimed task", a.Token)
	}
	return a, nil
}

// complete ends an attempt as succeeded.
func (s *server) complete(w http.ResponseWriter, r *http.Request, q *query) error {
	e := wire.WorkerEnd{How: wire.WorkerCompleted}
	var said report
	a, err := s.readAttempt(w, r, q, false, map[string]any{"output": &e.Output, "result": &said.raw})
	if err == nil {
		e.Result, err = said.result()
	}
	return s.ended(w, r, a, e, err)
}

// failAttempt ends an attempt as failed. It is retried by the task's policy, unless "retry" is false.
func (s *server) failAttempt(w http.ResponseWriter, r *http.Request, q *query) error {
	e := wire.WorkerEnd{How: wire.WorkerFailed, In: -1}
	retry, after := true, (*string)(nil)
	var said report
	a, err := s.readAttempt(w, r, q, false, map[string]any{"error": &e.Error, "retry": &retry, "retry_after": &after, "output": &e.Output, "result": &said.raw})
	if err == nil {
		e.Result, err = said.result()
	}
	if err == nil && after != nil {
		if e.In, err = readDelay(*after, "retry_after"); err == nil && !retry {
			err = invalid("retry_after", "the attempt is not retried; leave out retry: false, or this")
		}
	}
	e.Final, e.Error = !retry, cmp.Or(e.Error, "failed, the worker did not say why")
	return s.ended(w, r, a, e, err)
}

// snooze undoes an attempt, which is due again later.
func (s *server) snooze(w http.ResponseWriter, r *http.Request, q *query) error {
	e := wire.WorkerEnd{How: wire.WorkerSnoozed}
	delay := (*string)(nil)
	a, err := s.readAttempt(w, r, q, false, map[string]any{"delay": &delay, "reason": &e.Reason})
	if err == nil {
		if delay == nil {
			err = invalid("delay", "is missing; say until when the task is put off, as in 1m, or 0s")
		} else {
			e.In, err = readDelay(*delay, "delay")
		}
	}
	return s.ended(w, r, a, e, err)
}

func readDelay(text, field string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil {
		return d, malformed(field, "%s", err)
	}
	if d < 0 || d > duration.Max {
		return d, invalid(field, "%v is out of range 0s–366d", d)
	}
	return d, nil
}

func (s *server) ended(w http.ResponseWriter, r *http.Request, a wire.WorkerAttempt, e wire.WorkerEnd, err error) error {
	if err != nil {
		return err
	}
	workers, err := s.workers()
	if err != nil {
		return err
	}
	task, err := workers.EndFor(r.Context(), a, e)
	if err != nil {
		return unfit(err, "", 0)
	}
	return reply(w, http.StatusOK, task)
}

// leaveWorker ends a session.
func (s *server) leaveWorker(w http.ResponseWriter, r *http.Request, q *query) error {
	workers, err := s.workers()
	if err == nil {
		err = readKeys(w, r, q, map[string]any{})
	}
	if err != nil {
		return err
	}
	stopped, err := workers.LeaveFor(r.Context(), workerCaller(r), r.PathValue("session"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]int{"stopped": stopped})
}

// listWorkers lists the workers by id.
func (s *server) listWorkers(w http.ResponseWriter, r *http.Request, q *query) error {
	page, after := q.page(), q.after("workers")
	if q.err != nil {
		return q.err
	}
	peers, err := s.store.Workers(r.Context())
	if err != nil {
		return err
	}
	views := make([]wire.Worker, len(peers))
	for i, p := range peers {
		views[i] = p.Worker()
	}
	slices.SortFunc(views, func(a, b wire.Worker) int { return cmp.Compare(a.ID, b.ID) })
	return replyPage(w, "workers", views, func(v wire.Worker) string { return v.ID }, after, page.Limit)
}

// refusedWorker is the problem of a worker's call whose session or attempt is no more.
func refusedWorker(err error) *problem {
	if e, ok := errors.AsType[*ledger.WorkerError](err); ok {
		return newProblem(http.StatusConflict, e.Code, e.Text)
	}
	return nil
}
