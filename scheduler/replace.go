package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// ReplaceOptions change what Replace does. The zero value is fine.
type ReplaceOptions struct {
	ConfigAt time.Time // as Options.ConfigAt
	// Activate makes the set the newest configuration, though it was loaded before: without it an older one has the number that it had,
	// and governs only when no live replica has a newer one.
	Activate bool
}

// Replace makes set the definitions of this replica, in place of those that it has; it takes them all, or none. What runs ends under the
// definition that it began with, and its retries use the new one. Due times that have passed do not fire by a new schedule. Pending tasks
// of jobs that set does not have are cancelled; those of pools that it does not have wait. The answer says what has changed, and
// whether the set governs.
//
// Before Run has loaded the definitions, Run loads these. The name of the set stays as it is: the answer says that it needs a restart.
//
// An error changes nothing: what New returns for a set; jobs.ErrUnavailable if the store does not answer, and while this replica drains.
// Once the store has taken the set's number there is no error: if it does not answer then, Pending of the answer says so, and this replica
// goes on to write the definitions.
func (s *Scheduler) Replace(ctx context.Context, set jobs.Set, o ReplaceOptions) (wire.Reloaded, error) {
	out := wire.Reloaded{Replica: s.opt.ID, ConfigTime: o.ConfigAt}
	if name := s.plan.Load().Set.Name; set.Name != name {
		out.Restart, set.Name = append(out.Restart, "name"), name
	}
	before := s.plan.Load()
	p, changes, err := before.Next(set, s.opt.Labels)
	if err != nil {
		return out, err
	}
	if _, err := jobLocks(p, s.opt.JobLocks, s.given); err != nil {
		return out, err
	}
	if err := s.configure(ctx); err != nil {
		return out, err
	}
	defer s.configured()
	if s.members.Draining() {
		return out, fmt.Errorf("%w: this replica is stopping", jobs.ErrUnavailable)
	}
	if now := s.plan.Load(); now != before { // another call was sooner
		if p, changes, err = now.Next(set, s.opt.Labels); err != nil {
			return out, err
		}
	}
	out.Jobs, out.Pools = changes.Jobs, changes.Pools
	own := s.members.Config()
	loaded := own.Number > 0
	if loaded {
		d := p.Definitions()
		d.At, d.Activate = o.ConfigAt, o.Activate
		number, err := s.store.Enter(ctx, s.members.Session().ID, d)
		if errors.Is(err, ledger.ErrSessionDead) {
			err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
		}
		if err != nil {
			return out, fmt.Errorf("replace the definitions: %w", err)
		}
		own = membership.Configuration{Number: number, Hash: d.Content(), At: o.ConfigAt}
		out.Config, out.ConfigHash = own.Number, own.Hash
	}
	s.triggers.Replacing(true)
	s.work.Replan(p)
	s.plan.Store(p)
	s.configAt = o.ConfigAt
	if !loaded {
		s.triggers.Replacing(false)
		return out, nil
	}
	s.members.SetConfig(own) // after the plan: whoever sees the number finds the set
	s.asserted.changed = changes.Names()
	got, _, err := s.assertNow(ctx)
	if err != nil {
		s.members.StoreFailed(err)
		out.Pending = err.Error()
		wake.Send(s.wakeGovern)
		return out, nil
	}
	if out.Governs = got.Governs; !got.Governs {
		s.members.ReadPeers(ctx)
		_, out.Newer = s.configurations()
	}
	if got.Followed {
		s.triggers.RefreshJobs(ctx, changes.Names())
	} else {
		s.triggers.Refresh(ctx)
	}
	return out, nil
}
