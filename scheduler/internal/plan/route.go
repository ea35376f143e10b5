package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// RetiredFor is how long the events of a definition that no live configuration has are kept, in case it returns.
const RetiredFor = 10 * time.Minute

// Route decides by the definition that holds now. If this replica does not have it, the event is left to a replica that
// has it, and dropped when no live configuration has had it for RetiredFor.
func (p *Plan) Route(now time.Time, e ledger.Event) ledger.Route {
	n, kind, hash := p.notifies(e.Notification)
	switch {
	case e.Hash == "":
		return ledger.Route{Keep: now.Sub(e.At) < RetiredFor}
	case hash != e.Hash:
		return ledger.Route{Keep: true}
	case !n.Wants(e.Event):
		return ledger.Route{}
	}
	told := e.Notification
	told.ID, told.Name = eventKey(e), p.Set.Name
	if e.Event == jobs.EventMissed {
		told.Until = cmp.Or(e.Until, e.ScheduledAt)
	} else {
		told.Count = 0
	}
	told.Text = told.Sentence()
	return ledger.Route{Task: &jobs.NewTask{Pool: naming.NotificationsPool, Kind: kind, Payload: told, IdempotencyKey: told.ID}}
}

// notifies is the notification of an event's job or pool; with an empty hash this replica does not know the definition.
func (p *Plan) notifies(e jobs.Notification) (n jobs.Notify, kind, hash string) {
	if e.Job != "" {
		if j, known := p.Jobs[e.Job]; known {
			return j.Notify, j.notifier, j.Hash
		}
	} else if pool, known := p.Pools[e.Pool]; known {
		return pool.Notify, pool.notifier, pool.Hash
	}
	return jobs.Notify{}, "", ""
}

// forward sends a notification whose notifier no configuration has any more by the present notifier: notifications that
// wait for a webhook go on when its URL is corrected.
type forward struct{ plan *Plan }

func (f forward) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	var told jobs.Notification
	if err := json.Unmarshal(t.Payload, &told); err != nil {
		return jobs.Permanent(err)
	}
	n, _, _ := f.plan.notifies(told)
	if n.Handler == nil {
		return jobs.Cancel(errors.New("the configuration has no notification for this event any more"))
	}
	return n.Handler.Run(ctx, t, out)
}

// eventKey is the same for one event on every replica: a task starts once and ends once in each way, a due time is
// missed once.
func eventKey(e ledger.Event) string {
	if e.Event == jobs.EventLate { // a run may be late twice
		return fmt.Sprintf("%s/%s/%s", e.Event, e.TaskID, e.ReasonCode)
	}
	if e.Event == jobs.EventPaused { // a pool may be paused again
		return fmt.Sprintf("%s/%s/%s", e.Event, e.Pool, e.ID)
	}
	if e.TaskID != "" {
		return fmt.Sprintf("%s/%s", e.Event, e.TaskID)
	}
	key := fmt.Sprintf("%s/%s@%s", e.Event, e.Job, e.ScheduledAt.UTC().Format(time.RFC3339Nano))
	if e.Seq > 0 {
		key += "/" + strconv.Itoa(e.Seq)
	}
	return key
}
