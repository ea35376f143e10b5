package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

const (
	watchEvery = time.Second
	reapBatch  = 500
	// governAgain is when a replica that does not govern asks again where it differs: the newer one may
	// still have been writing its definitions. While there is a difference it asks ten times as seldom.
	governAgain = 3 * time.Second
)

// watch looks after the others, each second or more often, until ctx is done: it declares those dead
// whose beat stands still, reaps what the dead left running, and stops own work that somebody
// cancelled. It asks nobody but the store, so that a lock service that hangs delays none of this.
func (s *Scheduler) watch(ctx context.Context) {
	pulses := pulses{}
	orphans := orphans{}
	members := ""
	for pause(ctx, s.watchEvery(), s.nudgeWatch) {
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		if peers := s.readPeers(cctx); peers != nil {
			s.bury(cctx, pulses, peers)
			if now := membership(peers); now != members {
				nudge(s.nudgeGovern)
				nudge(s.nudgeBalance)
				members = now
			}
			s.reap(cctx)
		}
		s.ownRows(cctx, orphans)
		cancel()
	}
}

func (s *Scheduler) watchEvery() time.Duration { return min(watchEvery, s.opt.SessionTTL/4) }

// readPeers reads who lives and takes part.
func (s *Scheduler) readPeers(ctx context.Context) []ledger.Peer {
	peers, err := s.store.Peers(ctx)
	if err != nil {
		s.storeFailed(err)
		return nil
	}
	var live []string
	for _, p := range peers {
		if !p.Dead && !p.Draining {
			live = append(live, p.Replica)
		}
		if p.Session == s.session.Load().id && s.health.isDraining() && !p.Draining {
			_ = s.store.SetDraining(ctx, p.Session) // the first time did not get through
		}
	}
	s.stripes.take(s.opt.ID, live, s.health.isDraining())
	return peers
}

// bury declares those peers dead whose beat this replica saw unchanged for a session ttl, on its
// own clock, while it could read the store and all its own beats were taken: a store on a full disk
// answers, and nobody can beat. No wall clock decides who lives, and an outage of the store kills
// nobody.
func (s *Scheduler) bury(ctx context.Context, pulses pulses, peers []ledger.Peer) {
	ses := s.session.Load()
	if ses.steady.IsZero() {
		clear(pulses)
		return
	}
	for _, p := range peers {
		if p.Dead || p.Session == ses.id {
			continue
		}
		silent, _ := pulses.feel(p, s.opt.SessionTTL/2)
		silent = min(silent, ses.steady.Elapsed())
		if silent < max(s.opt.SessionTTL, p.TTL) {
			continue
		}
		s.declareDead(ctx, p, silent)
	}
	pulses.forget(peers)
}

// declareDead ends the session of a peer that was silent for so long, and reports whether it did: not
// if the peer has beaten since, or somebody else was first.
func (s *Scheduler) declareDead(ctx context.Context, p ledger.Peer, silent time.Duration) bool {
	if dead, err := s.store.Bury(ctx, p.Session, p.Beat); err != nil || !dead {
		return false
	}
	s.buried.Add(1)
	s.log.Warn("replica declared dead", "replica", p.Replica, "silent", silent.Round(time.Millisecond).String())
	return true
}

func membership(peers []ledger.Peer) string {
	var live []string
	for _, p := range peers {
		if !p.Dead {
			live = append(live, fmt.Sprintf("%s/%d", p.Session, p.Config))
		}
	}
	return strings.Join(live, " ")
}

// govern asserts this replica's configuration if it is the newest among the living, whenever that
// may have changed, until ctx is done; otherwise it learns where it differs.
func (s *Scheduler) govern(ctx context.Context) {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		wait := 10 * governAgain
		select {
		case <-ctx.Done():
			return
		case <-s.nudgeGovern:
			wait = governAgain
		case <-again.C:
		}
		got, err := s.store.Assert(ctx, s.session.Load().id, s.plan.definitions())
		if err != nil {
			s.storeFailed(err)
			if pause(ctx, time.Second, nil) {
				nudge(s.nudgeGovern)
			}
			continue
		}
		news := s.foreign.set(got.Jobs)
		if news && len(got.Jobs) > 0 {
			s.log.Warn("another replica's newer configuration governs, and has jobs otherwise; they are left to that replica",
				"jobs", len(got.Jobs), "such as", strings.Join(got.Jobs[:min(10, len(got.Jobs))], ", "))
		}
		if news {
			wait = governAgain
		}
		if !got.Governs && (wait == governAgain || len(got.Jobs) > 0) {
			again.Reset(wait)
		}
		for _, f := range s.feeders {
			f.unskip()
		}
		s.look(ctx, s.owned())
	}
}

// reap ends what the dead left running, or lets it wait for another attempt.
func (s *Scheduler) reap(ctx context.Context) {
	reaped, err := s.store.Reap(ctx, reapBatch)
	if err != nil {
		s.storeFailed(err)
		return
	}
	for _, r := range reaped {
		s.metrics.Reaped(r)
		s.log.Warn("attempt lost with its replica", "task", r.Task.ID, "job", r.Task.Job, "pool", r.Task.Pool,
			"replica", r.Replica, "state", r.Task.State, "reason", r.Task.Reason)
		if r.Task.State == jobs.StatePending {
			s.wakeFeeder(r.Task.Pool)
		}
	}
}

// orphans are running rows of the own session that this replica does not know, by task id: a claim
// whose answer was lost, and since when they were seen.
type orphans map[string]orphan

type orphan struct {
	token int64
	since time.Time
}

// ownRows reads what the store says is running here: cancelled work is stopped, and what nobody
// here knows is handed back.
func (s *Scheduler) ownRows(ctx context.Context, unknown orphans) {
	ses := s.session.Load()
	rows, err := s.store.Own(ctx, ses.id)
	if err != nil {
		s.storeFailed(err)
		return
	}
	read := time.Now()
	listed := map[string]bool{}
	var back []ledger.Result
	for _, row := range rows {
		listed[row.TaskID] = true
		if a := s.running.get(row.TaskID); a != nil {
			if row.Cancel != "" && a.task.Token == row.Token {
				a.stop(stopCancelled, row.Cancel, time.Time{})
			}
			delete(unknown, row.TaskID)
			continue
		}
		if s.running.knows(row.TaskID) || s.recorder.holds(row.TaskID) || s.queued(row.TaskID) {
			delete(unknown, row.TaskID)
			continue
		}
		first, seen := unknown[row.TaskID]
		if !seen || first.token != row.Token {
			unknown[row.TaskID] = orphan{row.Token, read}
			continue
		}
		// Every transaction that was under way when it was first seen has ended since.
		if s.running.oldestTransaction().After(first.since) && read.Sub(first.since) >= s.opt.SessionTTL/3 {
			back = append(back, ledger.Result{TaskID: row.TaskID, Token: row.Token, Verdict: ledger.HandBack, Reason: "claimed, but the answer was lost"})
		}
	}
	for id := range unknown {
		if !listed[id] {
			delete(unknown, id)
		}
	}
	if len(back) > 0 {
		if _, err := s.store.Finish(ctx, ses.id, back); err != nil {
			s.storeFailed(err)
		}
	}
}

// clearRows hands back whatever the store says is running here when nothing is any more: a claim
// whose answer was lost.
func (s *Scheduler) clearRows(ctx context.Context, ses *session) {
	rows, err := s.store.Own(ctx, ses.id)
	if err != nil {
		return
	}
	var back []ledger.Result
	for _, row := range rows {
		if !s.running.knows(row.TaskID) && !s.recorder.holds(row.TaskID) {
			back = append(back, ledger.Result{TaskID: row.TaskID, Token: row.Token, Verdict: ledger.HandBack, Reason: "claimed, but the answer was lost"})
		}
	}
	if len(back) > 0 {
		_, _ = s.store.Finish(ctx, ses.id, back) // else the others find them lost
	}
}

func (s *Scheduler) queued(id string) bool {
	for _, f := range s.feeders {
		if f.holds(id) {
			return true
		}
	}
	return false
}
