package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/nearest"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

const (
	// askAgain is how soon a claim that could not ask the store tries again.
	askAgain = 500 * time.Millisecond
	// leastTime is the time that a claim has to take tasks if its wait is shorter: for its turn, and for the store.
	leastTime = callTime
	// rounds is how many times one claim asks again for what it has learned to leave out.
	rounds = 3
	// mostMissed is how many tasks of lost answers come again with one claim, and missedPart how many of them are read at once.
	mostMissed, missedPart = 100, 16
	// mostBytes bounds the payloads of one answer, or it is one task: on a slow line the worker would not have it in time, and lose its tasks.
	mostBytes = 1 << 20
)

// ClaimFor claims tasks for a worker, c.Max or 1 MiB of payloads at most, and opens its session if it has none. Tasks that the worker does not
// have, although its session runs them, come first, alone. Nothing is asked of the store once c.Wait is over, or 5 s with a shorter one, or the caller has gone. What the
// store then answers to an earlier question is handed back, unless the worker says what it has: then its next claim brings it, and until then it
// runs under the session. Tasks come with a session that was renewed less than a third of its ttl before: see fresh.
//
//  1. check pool and kinds; open the session, or renew it
//  2. c.Have is said: return the tasks that the worker did not get, if there are any
//  3. claim, when it is this claim's turn in its pool; return what there is
//  4. wait for an arrival, for the moment at which the pool's rate lets a task start, and for a third of the session's ttl, after which
//     the session is renewed, also while this claim waits for its turn; then claim again if something may be left
//  5. return nothing when c.Wait is over, the caller has gone, c.Stop is closed, or the replica drains
//
// A session that the claim opened is ended again if the claim answers an error, or its caller has gone: nobody learns of it.
//
// Errors: *jobs.FieldError for what is wrong in c; jobs.ErrNotFound for an unknown pool, or a session that is not the caller's;
// *ledger.WorkerError; ledger.ErrManyWorkers; jobs.ErrUnavailable, also while the replica drains.
func (w *Workers) ClaimFor(ctx context.Context, c wire.WorkerClaim) (wire.Claim, error) {
	if err := w.joined(); err != nil {
		return wire.Claim{}, err
	}
	if w.member.Draining() {
		return wire.Claim{}, fmt.Errorf("%w: this replica is stopping; ask another one", jobs.ErrUnavailable)
	}
	if err := w.check(&c); err != nil {
		return wire.Claim{}, err
	}
	renewed := time.Now()
	opens := c.Session == ""
	ses, err := w.session(ctx, &c)
	if err != nil {
		return wire.Claim{}, err
	}
	answer, err := w.claimUnder(ctx, c, ses, renewed)
	if err != nil && opens {
		w.forget(ctx, ses)
	}
	return answer, err
}

// claimUnder is steps 2 to 5 of ClaimFor, under a session that was renewed at that moment.
func (w *Workers) claimUnder(ctx context.Context, c wire.WorkerClaim, ses ledger.Peer, renewed time.Time) (wire.Claim, error) {
	answer := wire.Claim{
		Session: ses.Session, Worker: ses.Replica, TTL: ses.TTL.String(), Beat: (ses.TTL / 3).Seconds(), Items: []wire.ClaimedTask{},
	}
	if missed, err := w.missed(ctx, c, ses); err != nil || len(missed) > 0 {
		answer.Items = append(answer.Items, missed...)
		if err == nil {
			err = w.fresh(ctx, c, ses, renewed)
		}
		return answer, err
	}
	taking, cancel := context.WithTimeout(ctx, max(c.Wait, leastTime))
	defer cancel()
	started, renewed, err := w.await(taking, c, ses, renewed)
	if err != nil {
		return wire.Claim{}, err
	}
	if len(started) > 0 {
		if taking.Err() == nil {
			err = w.fresh(taking, c, ses, renewed)
		}
		refused := (*ledger.WorkerError)(nil)
		if expired := errors.As(err, &refused); err != nil || taking.Err() != nil {
			if c.Have == nil || c.Session == "" || expired { // else the worker's next claim brings them: it may have, from another replica
				w.handBack(ctx, ses.Session, started)
			}
			started = nil
		}
		if err != nil && taking.Err() == nil {
			return wire.Claim{}, err
		}
	}
	if ctx.Err() != nil {
		return wire.Claim{}, ctx.Err()
	}
	for _, t := range started {
		w.log.Info("task claimed by a worker", "worker", ses.Replica, "task", t.ID, "pool", t.Pool, "job", t.Job, "attempt", t.Attempt)
		answer.Items = append(answer.Items, w.item(*t.Task, t.Until))
	}
	return answer, nil
}

// forget ends a session that its worker has not learned of. What runs under it is reaped.
func (w *Workers) forget(ctx context.Context, ses ledger.Peer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if err := w.store.Leave(ctx, ses.Session); err != nil {
		w.member.StoreFailed(err) // it expires
	}
}

func (w *Workers) item(t jobs.Task, until time.Time) wire.ClaimedTask {
	return wire.ClaimedTask{Task: t, Deadline: until, IdempotencyKey: t.IdempotencyKeyIn(w.plan.Load().Set.Name)}
}

// check checks the pool and the kinds of a claim, and sorts the kinds.
func (w *Workers) check(c *wire.WorkerClaim) error {
	pool, known := w.plan.Load().Pools[c.Pool]
	switch {
	case !known || c.Pools != nil && !slices.Contains(c.Pools, c.Pool):
		return fmt.Errorf("pool %.80q: %w", c.Pool, jobs.ErrNotFound)
	case len(pool.ByWorkers) == 0:
		return &jobs.FieldError{Path: "pool", Problem: fmt.Sprintf("replicas run the tasks of pool %s; give it, or kinds of it, worker: {} in the configuration", c.Pool)}
	}
	if c.Kinds == nil {
		if c.Session == "" {
			c.Kinds = []string{""}
		} else {
			return nil
		}
	}
	for i, kind := range c.Kinds {
		if slices.Contains(pool.ByWorkers, kind) {
			continue
		}
		if c.Session != "" { // another configuration may have it: then there is nothing to claim
			continue
		}
		named := slices.DeleteFunc(slices.Clone(pool.ByWorkers), func(kind string) bool { return kind == "" })
		problem := fmt.Sprintf("pool %s has no kind %.80q for workers", c.Pool, kind)
		if kind == "" {
			problem = fmt.Sprintf("pool %s has nothing for workers without a kind", c.Pool)
		} else if close := nearest.Of(kind, named); close != "" {
			problem += fmt.Sprintf(", did you mean %q?", close)
		}
		if len(named) > 0 {
			problem += "; it has " + plan.Some(named)
		}
		return &jobs.FieldError{Path: fmt.Sprintf("kinds[%d]", i), Problem: problem}
	}
	slices.Sort(c.Kinds)
	c.Kinds = slices.Compact(c.Kinds)
	return nil
}

// session opens the session of a claim, or renews it; it fills in the kinds of the claim.
func (w *Workers) session(ctx context.Context, c *wire.WorkerClaim) (ledger.Peer, error) {
	if c.Session == "" {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		m := ledger.Member{Replica: c.Name + "-" + uuid.NewString()[:8], Pool: c.Pool, Kinds: c.Kinds, Owner: c.Owner, TTL: w.opt.SessionTTL}
		session, err := w.store.Join(ctx, m)
		if err == nil {
			w.log.Info("worker's session opened", "worker", m.Replica, "pool", m.Pool, "kinds", m.Kinds, "token", m.Owner)
		}
		return ledger.Peer{Member: m, Session: session}, err
	}
	ses, err := w.beat(ctx, c.WorkerCaller, c.Session)
	switch {
	case err != nil:
		return ses, err
	case ses.Dead:
		return ses, errExpired(ses)
	case ses.Pool != c.Pool:
		return ses, &jobs.FieldError{Path: "session", Problem: fmt.Sprintf("it is one for tasks of pool %s; for another pool open another one", ses.Pool)}
	case c.Kinds != nil && !slices.Equal(c.Kinds, ses.Kinds):
		return ses, &jobs.FieldError{Path: "kinds", Problem: fmt.Sprintf("the session was opened for %q; leave them out, or open another one", ses.Kinds)}
	}
	c.Kinds = ses.Kinds
	return ses, nil
}

// missed are tasks that the session runs and that the worker says it does not have, at most as many, and with as many bytes, as a claim takes:
// the rest come with the next claim.
func (w *Workers) missed(ctx context.Context, c wire.WorkerClaim, ses ledger.Peer) (items []wire.ClaimedTask, err error) {
	if c.Have == nil || c.Session == "" {
		return nil, nil
	}
	have, now := map[string]bool{}, w.member.Clock().Now()
	for _, id := range c.Have {
		have[id] = true
	}
	var missed []string
	for after, more := "", true; more && len(missed) < mostMissed; {
		held, err := w.held(ctx, ses.Session, after)
		if err != nil {
			return nil, err
		}
		var cancelled []ledger.Started
		for _, h := range held {
			switch after = h.ID; {
			case have[h.ID]:
			case h.Cancel != "":
				cancelled = append(cancelled, ledger.Started{Task: &h.Task})
			case h.Until.After(now) && len(missed) < mostMissed:
				missed = append(missed, h.ID)
			}
		}
		if len(cancelled) > 0 { // nobody runs them: handed back, they end as cancelled
			w.handBack(ctx, ses.Session, cancelled)
		}
		more = len(held) == batch
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	bytes := 0
	for part := range slices.Chunk(missed, missedPart) {
		held, err := w.store.HeldWhole(ctx, ses.Session, part)
		if err != nil {
			return nil, err
		}
		for _, h := range held {
			if bytes += len(h.Payload); bytes > mostBytes && len(items) > 0 {
				return items, nil
			}
			items = append(items, w.item(h.Task, h.Until))
		}
	}
	return items, nil
}

// claim asks the store for tasks. opens is when the pool's rate lets a task start, if that is why there is none, or when to ask again
// if nothing was decided: then got says nothing about what is left, or about limits. The end of ctx does not end it: the tasks of a claim without an answer would stay running.
func (w *Workers) claim(ctx context.Context, c wire.WorkerClaim, ses ledger.Peer) (got ledger.Claimed, decided bool, opens time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	p := w.plan.Load()
	governs := w.work.Governed(p, c.Pool)
	if governs.Hash == "" {
		return got, false, askAgain, nil
	}
	skip := map[string]bool{}
	for _, name := range p.NotByWorker(c.Pool, c.Kinds) {
		skip[name] = true
	}
	began := time.Now()
	for range rounds {
		got, err = w.store.Claim(ctx, ledger.Claim{
			Admission: ledger.Admission{
				Session: ses.Session, Replica: ses.Replica,
				Pools: map[string]ledger.Share{c.Pool: {Hash: governs.Hash, Limited: governs.Limited, Room: c.Max}},
				Admit: func(now time.Time, candidate ledger.Candidate) (time.Time, bool) {
					return p.AdmitByWorker(governs, c.Kinds, now, candidate)
				},
				Tells: p.TellsStart(),
			},
			Pool: c.Pool, ID: uuid.NewString(), Guard: true, Bytes: mostBytes, Now: w.member.Clock().Check,
			Scope: ledger.Scope{Kinds: c.Kinds, SkipJobs: slices.Sorted(maps.Keys(skip))},
		})
		learned := false
		for _, t := range got.Foreign {
			learned = learned || t.Job != "" && !skip[t.Job]
			skip[t.Job] = true
		}
		delete(skip, "")
		if err != nil || len(got.Tasks) > 0 || !learned && got.Behind == 0 {
			break
		}
	}
	w.opt.Observer.Claimed(jobs.ClaimTry{Pool: c.Pool, LockBackend: "store", Result: got.Result(err), Tasks: len(got.Tasks), Took: time.Since(began)})
	switch {
	case errors.Is(err, ledger.ErrSessionDead):
		return got, false, 0, errExpired(ses)
	case errors.Is(err, ledger.ErrOutdated):
		w.on.Outdated()
		return ledger.Claimed{}, false, askAgain, nil
	case errors.Is(err, ledger.ErrClock):
		w.member.StoreFailed(err)
		return ledger.Claimed{}, false, askAgain, nil
	case err != nil:
		w.member.StoreFailed(err)
	case len(got.Tasks) == 0 && got.Behind > 0: // others may come behind those that wait for their keys now
		opens = time.Millisecond
	case len(got.Tasks) == 0:
		opens = got.OpensIn
	}
	return got, err == nil, opens, err
}

// handBack makes tasks pending again of which the worker did not get to know.
func (w *Workers) handBack(ctx context.Context, session string, tasks []ledger.Started) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	results := make([]ledger.Result, len(tasks))
	for i, t := range tasks {
		results[i] = ledger.Result{TaskID: t.ID, Token: t.Token, Verdict: ledger.HandBack, Reason: "claimed, but the worker had gone", Code: "claim_lost"}
	}
	if _, err := w.store.Finish(ctx, session, results); err != nil {
		w.member.StoreFailed(err) // the session expires, or the worker says what it has
		return
	}
	w.on.Pending()
	w.Arrived(tasks[0].Pool)
}
