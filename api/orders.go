package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Ordering is a Replica that takes orders of its jobs: runs at a time to come, and backfills. Their errors are those of RunJobWith; what is wrong with an
// order is a *jobs.FieldError.
type Ordering interface {
	RunJobAt(ctx context.Context, name string, run jobs.NewRun, at time.Time) (wire.Order, error)
	Backfill(ctx context.Context, name, by string, b wire.NewBackfill) (wire.Order, error)
	PreviewBackfill(ctx context.Context, name string, b wire.NewBackfill) (wire.BackfillPreview, error)
}

// orders is the replica, if it takes orders.
func (s *server) orders() (Ordering, error) {
	if r, is := s.Replica.(Ordering); is {
		return r, nil
	}
	return nil, needsReplica("an order of a job needs its definition")
}

// runAt orders a run, and answers 202: it is not made yet.
func (s *server) runAt(w http.ResponseWriter, r *http.Request, name string, run jobs.NewRun, text string, payload json.RawMessage) error {
	at, err := readMoment(text, "at")
	if err != nil {
		return err
	}
	replica, err := s.orders()
	if err != nil {
		return err
	}
	order, err := replica.RunJobAt(r.Context(), name, run, at)
	if errors.Is(err, jobs.ErrNotFound) {
		return s.unknownJob(r.Context(), name, err)
	}
	if err != nil {
		return unfit(err, "", len(payload))
	}
	return reply(w, http.StatusAccepted, order)
}

// readMoment reads a time that must be there.
func readMoment(text, field string) (time.Time, error) {
	if text == "" {
		return time.Time{}, invalid(field, "is missing: a time as in 2026-12-24T18:00:00Z")
	}
	at, err := readTime(text, field)
	if err == nil && outOfEra(at) {
		err = invalid(field, "year %d is out of range 1970–2199", at.Year())
	}
	return at, err
}

// backfill orders runs of past due times, or says what that would do.
func (s *server) backfill(w http.ResponseWriter, r *http.Request, q *query) error {
	var b wire.NewBackfill
	var from string
	var to, rate *string
	var most *int
	preview := false
	err := readKeys(w, r, q, map[string]any{
		"from": &from, "to": &to, "max_running": &most, "rate": &rate, "again": &b.Again, "preview": &preview,
	})
	if err == nil {
		b.From, err = readMoment(from, "from")
	}
	if err == nil && to != nil {
		b.To, err = readMoment(*to, "to")
	}
	if err != nil {
		return err
	}
	if rate != nil {
		if b.Rate, err = jobs.ParseRate(*rate); err != nil {
			return invalid("rate", "%v", err)
		}
	}
	if most != nil {
		if b.MaxRunning = *most; *most == 0 { // elsewhere that is no limit, and here there is one
			return invalid("max_running", "must be 1 to %d", ledger.MostBackfilling)
		}
	}
	replica, err := s.orders()
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	var answer any
	status := http.StatusAccepted
	if preview {
		status = http.StatusOK
		answer, err = replica.PreviewBackfill(r.Context(), name, b)
	} else {
		answer, err = replica.Backfill(r.Context(), name, by(r), b)
	}
	if errors.Is(err, jobs.ErrNotFound) {
		return s.unknownJob(r.Context(), name, err)
	}
	if err != nil {
		return unfit(err, "", 0)
	}
	return reply(w, status, answer)
}

var orderKinds = []wire.OrderKind{wire.OrderRun, wire.OrderBackfill}

// listOrders lists orders, the latest first.
func (s *server) listOrders(w http.ResponseWriter, r *http.Request, q *query) error {
	filter := wire.OrderFilter{
		Job: q.name("job"), Kind: oneOf(q, "kind", orderKinds...), State: oneOf(q, "state", wire.OrderStates...), Page: q.page(),
	}
	if q.err != nil {
		return q.err
	}
	rows, next, err := s.store.Orders(r.Context(), filter)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if err := s.known(r.Context(), "", filter.Job); err != nil {
			return err
		}
	}
	return replyList(w, http.StatusOK, rows, next, nil)
}

func (s *server) getOrder(w http.ResponseWriter, r *http.Request, _ *query) error {
	order, err := s.store.Order(r.Context(), r.PathValue("id"))
	if err == nil && order.State == wire.OrderOpen {
		order.Causes, err = s.causesOf(r.Context(), order)
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, order)
}

// causesOf is what an open order waits for; nothing if its job is gone.
func (s *server) causesOf(ctx context.Context, o wire.Order) ([]wire.Cause, error) {
	u := s.upcoming()
	job, known := u.Set.Jobs[o.Job]
	job = job.WithDefaults()
	question := ledger.JobQuestion{Job: o.Job}
	if known {
		question.Pool, question.Kind = job.Pool, job.Kind
	}
	facts, err := s.store.WhyJob(ctx, question)
	if errors.Is(err, jobs.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := why.HereOfJob{Here: s.hereOf(facts.Next.Task), Known: known, Policy: job.Concurrency, Slots: job.MaxRunning}
	h.Differs = known && facts.Job.Hash != "" && facts.Job.Hash != u.Hash(o.Job)
	if b := o.Backfill; b != nil && len(b.OpenTasks) > 0 {
		if of, err := s.store.Why(ctx, b.OpenTasks[0]); err == nil && of.Task.State == jobs.StatePending { // else it has ended, or runs
			h.Task = why.Explain(of, s.here(ctx, of)).Causes
		}
	}
	return why.ExplainOrder(o, facts, h), nil
}

// cancelOrder ends an open order: what it has made goes on.
func (s *server) cancelOrder(w http.ResponseWriter, r *http.Request, q *query) error {
	if err := readKeys(w, r, q, nil); err != nil {
		return err
	}
	order, err := s.store.CancelOrder(r.Context(), r.PathValue("id"), by(r))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, order)
}
