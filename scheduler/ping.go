package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	pingLook = time.Second // at least this often it is looked whether a turn has come
	// pingAgain is the time between two tries in one turn.
	pingAgain = 2 * time.Second
	// pingOverdue is for how long a due time may be undecided: after an outage many are decided one after the other.
	pingOverdue = time.Minute
)

// ping calls the monitor outside in the turns of this replica, until ctx is done. Turns are counted by the database's clock, and the live replicas
// with the newest configuration take them one after the other: no row and no lock says whose turn it is, so where replicas do not see the same
// peers yet, a turn may have two calls, or none.
//
//  1. wait until the next turn begins, or pingLook
//  2. wait again if there is no monitor, the turn was taken, its first half is over, or it is another replica's
//  3. try it in that half, as long as this replica is stuck or the call fails, and keep what came of it
func (s *Scheduler) ping(ctx context.Context) {
	var taken time.Time
	wait := pingLook
	for wake.Wait(ctx, wait, nil) {
		wait = pingLook
		p := s.plan.Load().Set.Ping
		if p.Handler == nil {
			s.pinged.forget()
			continue
		}
		now, every := s.members.Clock().Now(), p.Interval()
		turn := now.Truncate(every)
		wait = min(pingLook, turn.Add(every).Sub(now))
		left := turn.Add(every / 2).Sub(now)
		if !turn.After(taken) || left <= 0 || !s.hasTurn(turn, every) {
			continue
		}
		taken = turn
		s.takeTurn(ctx, p.Handler, turn, left)
		wait = min(pingLook, max(0, turn.Add(every).Sub(s.members.Clock().Now())))
	}
}

// hasTurn reports whether a turn is that of this replica.
func (s *Scheduler) hasTurn(turn time.Time, every time.Duration) bool {
	live := slices.DeleteFunc(slices.Clone(s.members.Replicas()), func(p ledger.Peer) bool { return p.Dead || p.Draining })
	if len(live) == 0 {
		return false
	}
	newest := slices.MaxFunc(live, func(a, b ledger.Peer) int { return cmp.Compare(a.Config, b.Config) }).Config
	live = slices.DeleteFunc(live, func(p ledger.Peer) bool { return p.Config < newest })
	slices.SortFunc(live, func(a, b ledger.Peer) int { return cmp.Compare(a.Session, b.Session) })
	n := turn.UnixMicro() / every.Microseconds() % int64(len(live))
	return live[n].Session == s.members.Session().ID
}

// takeTurn tries for as long as is left, and keeps what came of it.
func (s *Scheduler) takeTurn(ctx context.Context, h jobs.Handler, turn time.Time, left time.Duration) {
	within, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	why := ""
	for {
		if why = s.stuck(); why == "" {
			if err := s.callOutside(within, h, turn); err != nil {
				why = err.Error()
			}
		}
		if why == "" || !wake.Wait(within, pingAgain, nil) {
			break
		}
	}
	if ctx.Err() != nil {
		return // this replica stops
	}
	if changed, before := s.pinged.keep(why); !changed {
		return
	} else if why != "" {
		s.log.Warn("the monitor outside was not called", "reason", why)
	} else if before {
		s.log.Info("the monitor outside is called again")
	} else {
		s.log.Info("the monitor outside is called")
	}
}

// stuck says what keeps this replica, or all of them, from their work; "" if nothing does. What a pause holds is not overdue.
func (s *Scheduler) stuck() string {
	store, clock, _ := s.members.Conditions()
	if !store.Ready || !clock.Ready {
		return cmp.Or(store.Detail, clock.Detail)
	}
	a, fresh := s.work.Ahead()
	if !fresh {
		return "no work may begin here, or the store has not been looked at"
	}
	now := s.members.Clock().Now()
	if s.store.SeenPause().At(now).Is() || a.FirstDue.IsZero() || now.Sub(a.FirstDue) < pingOverdue {
		return ""
	}
	return fmt.Sprintf("no replica decides what has been due since %s", a.FirstDue.UTC().Format(time.RFC3339))
}

// callOutside calls the monitor.
func (s *Scheduler) callOutside(ctx context.Context, h jobs.Handler, turn time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	name := s.plan.Load().Set.Name
	text := "replica " + s.opt.ID + " works"
	if name != "" {
		text = "[" + name + "] " + text
	}
	id := "ping/" + turn.UTC().Format(time.RFC3339)
	payload, err := json.Marshal(struct {
		ID      string    `json:"id"`
		Text    string    `json:"text"`
		Name    string    `json:"name,omitempty"`
		Replica string    `json:"replica"`
		At      time.Time `json:"at"`
	}{id, text, name, s.opt.ID, turn.UTC()})
	if err != nil {
		return err
	}
	return h.Run(ctx, jobs.Task{ID: id, IdempotencyKey: id, State: jobs.StateRunning, Attempt: 1, MaxAttempts: 1, Replica: s.opt.ID, Payload: payload, PayloadSize: len(payload)}, io.Discard)
}

// pinged is what came of the last turn of this replica.
type pinged struct {
	mu    sync.Mutex
	known bool   // there was one
	why   string // it failed; "": it did not
}

// keep keeps what came of a turn. changed: it is otherwise than before, or the first. before: there was one.
func (p *pinged) keep(why string) (changed, before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, before = !p.known || (p.why == "") != (why == ""), p.known
	p.known, p.why = true, why
	return changed, before
}

// forget is for a replica that has no monitor.
func (p *pinged) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.why = false, ""
}

// last is what came of the last turn; false if there was none.
func (p *pinged) last() (why string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why, p.known
}
