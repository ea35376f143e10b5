package sim

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

type nothing struct{}

func (e *edge) Join(ctx context.Context, m ledger.Member) (string, error) {
	return call(ctx, e, func(ctx context.Context) (string, error) { return e.st.Join(ctx, m) })
}

func (e *edge) Beat(ctx context.Context, session string) (time.Time, error) {
	return call(ctx, e, func(ctx context.Context) (time.Time, error) { return e.st.Beat(ctx, session) })
}

func (e *edge) SetDraining(ctx context.Context, session string) error {
	_, err := call(ctx, e, func(ctx context.Context) (nothing, error) { return nothing{}, e.st.SetDraining(ctx, session) })
	return err
}

func (e *edge) Peers(ctx context.Context) ([]ledger.Peer, error) { return call(ctx, e, e.st.Peers) }

func (e *edge) Expire(ctx context.Context, session string, beat int64) (bool, error) {
	return call(ctx, e, func(ctx context.Context) (bool, error) { return e.st.Expire(ctx, session, beat) })
}

func (e *edge) Leave(ctx context.Context, session string) error {
	_, err := call(ctx, e, func(ctx context.Context) (nothing, error) { return nothing{}, e.st.Leave(ctx, session) })
	return err
}

func (e *edge) BeatWorker(ctx context.Context, session, owner string) (worker ledger.Peer, now time.Time, err error) {
	_, err = call(ctx, e, func(ctx context.Context) (_ nothing, err error) {
		worker, now, err = e.st.BeatWorker(ctx, session, owner)
		return nothing{}, err
	})
	return worker, now, err
}

func (e *edge) Holds(ctx context.Context, session, task string) (h ledger.Held, runs bool, err error) {
	_, err = call(ctx, e, func(ctx context.Context) (_ nothing, err error) {
		h, runs, err = e.st.Holds(ctx, session, task)
		return nothing{}, err
	})
	return h, runs, err
}

func (e *edge) Held(ctx context.Context, session, after string, limit int) ([]ledger.Held, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Held, error) { return e.st.Held(ctx, session, after, limit) })
}

func (e *edge) HeldWhole(ctx context.Context, session string, tasks []string) ([]ledger.Held, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Held, error) { return e.st.HeldWhole(ctx, session, tasks) })
}

func (e *edge) ReportFor(ctx context.Context, session string, p ledger.Progress) (bool, error) {
	return call(ctx, e, func(ctx context.Context) (bool, error) { return e.st.ReportFor(ctx, session, p) })
}

func (e *edge) TimedOut(ctx context.Context, now time.Time, limit int) ([]ledger.Held, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Held, error) { return e.st.TimedOut(ctx, now, limit) })
}

func (e *edge) Enter(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return call(ctx, e, func(ctx context.Context) (int64, error) { return e.st.Enter(ctx, session, d) })
}

func (e *edge) SetDiffers(ctx context.Context, session, what string) error {
	_, err := call(ctx, e, func(ctx context.Context) (nothing, error) { return nothing{}, e.st.SetDiffers(ctx, session, what) })
	return err
}

func (e *edge) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return call(ctx, e, func(ctx context.Context) (int64, error) { return e.st.Load(ctx, session, d) })
}

func (e *edge) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Assertion, error) { return e.st.Assert(ctx, session, d) })
}

func (e *edge) UpcomingOf(ctx context.Context, jobs []string) ([]ledger.Upcoming, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Upcoming, error) { return e.st.UpcomingOf(ctx, jobs) })
}

func (e *edge) Upcoming(ctx context.Context, stripes []int) ([]ledger.Upcoming, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Upcoming, error) { return e.st.Upcoming(ctx, stripes) })
}

func (e *edge) Overdue(ctx context.Context, t time.Time, limit int) ([]ledger.Upcoming, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Upcoming, error) { return e.st.Overdue(ctx, t, limit) })
}

func (e *edge) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for _, dec := range decisions {
			for i := range dec.Triggers {
				if task := dec.Triggers[i].Task; task != nil {
					minted := *task
					minted.ID = e.shift(task.ID)
					dec.Triggers[i].Task, dec.Triggers[i].Trigger.TaskID = &minted, minted.ID
					ordered(dec.Orders, task.ID, minted.ID)
				}
			}
		}
		return decisions
	}
	names, busy := e.busy(d.Jobs)
	d.Jobs = names
	return stalled(ctx, e, func(ctx context.Context) (ledger.Decided, error) {
		decided, err := e.st.Decide(ctx, d)
		decided.Busy = busy
		e.process.trip(decided.Started)
		return decided, err
	})
}

// ordered gives the run of an order the id that its task has.
func ordered(orders []ledger.Order, was, is string) {
	for i := range orders {
		p := &orders[i].Progress
		if p.TaskID == was {
			p.TaskID = is
		}
		for n := range p.Open {
			if p.Open[n].Task == was {
				p.Open[n].Task = is
			}
		}
	}
}

// busy has every third decision about several jobs find some of them locked.
func (e *edge) busy(names []string) (free, busy []string) {
	if len(names) < 2 || e.decisions.Add(1)%3 > 0 {
		return names, nil
	}
	return names[:len(names)/2], names[len(names)/2:]
}

func (e *edge) Ready(ctx context.Context, now ledger.Judge) (ledger.Ready, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Ready, error) { return e.st.Ready(ctx, now) })
}

func (e *edge) Look(ctx context.Context, pool string, l ledger.Look) (ledger.Seen, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Seen, error) { return e.st.Look(ctx, pool, l) })
}

func (e *edge) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	return stalled(ctx, e, func(ctx context.Context) (ledger.Claimed, error) {
		claimed, err := e.st.Claim(ctx, c)
		e.process.trip(claimed.Tasks)
		return claimed, err
	})
}

func (e *edge) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Finished, error) {
		done, err := e.st.Finish(ctx, session, results)
		for _, f := range done {
			e.w.count("finish " + string(f.Finish))
		}
		return done, err
	})
}

func (e *edge) Extend(ctx context.Context, session string, moves []ledger.Extension) ([]bool, error) {
	return call(ctx, e, func(ctx context.Context) ([]bool, error) { return e.st.Extend(ctx, session, moves) })
}

func (e *edge) Report(ctx context.Context, session string, reports []ledger.Progress) ([]bool, error) {
	return call(ctx, e, func(ctx context.Context) ([]bool, error) { return e.st.Report(ctx, session, reports) })
}

func (e *edge) WriteOutput(ctx context.Context, session string, chunks []ledger.Chunk) ([]bool, error) {
	return call(ctx, e, func(ctx context.Context) ([]bool, error) { return e.st.WriteOutput(ctx, session, chunks) })
}

func (e *edge) Running(ctx context.Context, session string) (ledger.Running, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Running, error) { return e.st.Running(ctx, session) })
}

func (e *edge) Reap(ctx context.Context, limit int) ([]ledger.Reaped, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.Reaped, error) { return e.st.Reap(ctx, limit) })
}

func (e *edge) Sweep(ctx context.Context, now ledger.Judge, r jobs.Retention, limit int) (bool, error) {
	return call(ctx, e, func(ctx context.Context) (bool, error) { return e.st.Sweep(ctx, now, r, limit) })
}

func (e *edge) TaskRow(ctx context.Context, id string) (jobs.Task, error) {
	return call(ctx, e, func(ctx context.Context) (jobs.Task, error) { return e.st.TaskRow(ctx, id) })
}

func (e *edge) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.PoolStatus, error) { return e.st.Pools(ctx) })
}

func (e *edge) Retry(ctx context.Context, id, by string, force bool) (jobs.Task, error) {
	return call(ctx, e, func(ctx context.Context) (jobs.Task, error) { return e.st.Retry(ctx, id, by, force) })
}

func (e *edge) Notify(ctx context.Context, n ledger.Notify) (ledger.Notified, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Notified, error) { return e.st.Notify(ctx, n) })
}

func (e *edge) AddOrder(ctx context.Context, o ledger.Order, hash string) (ledger.Order, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Order, error) { return e.st.AddOrder(ctx, o, hash) })
}

func (e *edge) DueOrders(ctx context.Context, t time.Time, limit int) ([]ledger.DueOrder, error) {
	return call(ctx, e, func(ctx context.Context) ([]ledger.DueOrder, error) { return e.st.DueOrders(ctx, t, limit) })
}

func (e *edge) Ran(ctx context.Context, job string, from, to time.Time, limit int) ([]time.Time, error) {
	return call(ctx, e, func(ctx context.Context) ([]time.Time, error) { return e.st.Ran(ctx, job, from, to, limit) })
}

func (e *edge) LateRuns(ctx context.Context, now ledger.Judge, limit int) (ledger.Lateness, error) {
	return call(ctx, e, func(ctx context.Context) (ledger.Lateness, error) { return e.st.LateRuns(ctx, now, limit) })
}

func (e *edge) Enqueue(ctx context.Context, tasks ...jobs.NewTask) ([]jobs.Enqueued, error) {
	return call(ctx, e, func(ctx context.Context) ([]jobs.Enqueued, error) { return e.st.Enqueue(ctx, tasks...) })
}

func (e *edge) FirstWaits(ctx context.Context, session string, skip []string, limit int) ([]ledger.Wait, time.Time, error) {
	type waits struct {
		first []ledger.Wait
		ends  time.Time
	}
	got, err := call(ctx, e, func(ctx context.Context) (w waits, err error) {
		w.first, w.ends, err = e.st.FirstWaits(ctx, session, skip, limit)
		return w, err
	})
	return got.first, got.ends, err
}

func (e *edge) QueueWaits(ctx context.Context, session string, tasks []string) ([]jobs.Task, error) {
	return call(ctx, e, func(ctx context.Context) ([]jobs.Task, error) { return e.st.QueueWaits(ctx, session, tasks) })
}

func (e *edge) LeaveWaits(ctx context.Context, session string, tasks []string) error {
	_, err := call(ctx, e, func(ctx context.Context) (nothing, error) { return nothing{}, e.st.LeaveWaits(ctx, session, tasks) })
	return err
}

func (e *edge) ExplainWaits(ctx context.Context, session string, reasons map[string]string) error {
	_, err := call(ctx, e, func(ctx context.Context) (nothing, error) { return nothing{}, e.st.ExplainWaits(ctx, session, reasons) })
	return err
}

func (e *edge) EndWaits(ctx context.Context, now ledger.Judge, limit int) ([]jobs.Task, error) {
	return call(ctx, e, func(ctx context.Context) ([]jobs.Task, error) { return e.st.EndWaits(ctx, now, limit) })
}

func (e *edge) EndExpired(ctx context.Context, now ledger.Judge, limit int) ([]jobs.Task, time.Time, error) {
	type expired struct {
		ended []jobs.Task
		next  time.Time
	}
	got, err := call(ctx, e, func(ctx context.Context) (x expired, err error) {
		x.ended, x.next, err = e.st.EndExpired(ctx, now, limit)
		return x, err
	})
	return got.ended, got.next, err
}

// Namespace is known without a call.
func (e *edge) Namespace(ctx context.Context) (string, error) { return e.st.Namespace(ctx) }

func (e *edge) Listen(enqueued func(pools ...string)) (stop func()) { return e.st.Listen(enqueued) }

func (e *edge) Local() bool { return e.st.Local() }

func (e *edge) Writes() ledger.Writes { return e.st.Writes() }

func (e *edge) SeenPause() ledger.Pause { return e.st.SeenPause() }
