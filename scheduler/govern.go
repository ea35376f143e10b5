package scheduler

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// governAgain is how soon a replica that does not govern asks again where its configuration differs: the newer replica may
// still be writing its definitions. While there is a difference it asks a tenth as often.
const governAgain = 3 * time.Second

// govern keeps this replica's configuration in force while it is the newest among the live replicas, until ctx is done.
//
//  1. wait until that may have changed, or until it is time to ask again
//  2. assert this replica's configuration, which writes it if it is the newest; otherwise learn where it differs
//  3. leave the jobs and the work of pools that a newer configuration has otherwise
//  4. if this replica does not govern, and something changed or differs, set the time to ask again
//  5. read the due times of the own stripes
//
// While the store is away it asks each second.
func (s *Scheduler) govern(ctx context.Context) {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		wait := 10 * governAgain
		select {
		case <-ctx.Done():
			return
		case <-s.wakeGovern:
			wait = governAgain
		case <-again.C:
		}
		got, err := s.store.Assert(ctx, s.members.Session().ID, s.definitions())
		if err != nil {
			s.members.StoreFailed(err)
			if wake.Wait(ctx, time.Second, nil) {
				wake.Send(s.wakeGovern)
			}
			continue
		}
		s.governs.Store(got.Governs)
		news := s.triggers.LeaveJobs(got.Jobs)
		if news && len(got.Jobs) > 0 {
			s.log.Warn("jobs differ from another replica's newer configuration, and are left to that replica; restart the replica with the older file",
				"jobs", len(got.Jobs), "such as", strings.Join(got.Jobs[:min(10, len(got.Jobs))], ", "))
		}
		left := s.goBy(got.Pools)
		newsOfPools := !slices.Equal(left, *s.foreignPools.Swap(&left))
		if newsOfPools && len(left) > 0 {
			s.log.Warn("handlers of pools differ from another replica's newer configuration, and their tasks are left to that replica; restart the replica with the older file",
				"pools", len(left), "such as", plan.Some(left))
		}
		if news || newsOfPools {
			wait = governAgain
		}
		if !got.Governs && (wait == governAgain || len(got.Jobs)+len(got.Pools) > 0) {
			again.Reset(wait)
		}
		s.triggers.Refresh(ctx)
	}
}

// definitions is what the store keeps of the plan, and the time that edits are made by.
func (s *Scheduler) definitions() ledger.Definitions {
	d := s.plan.Definitions()
	d.Now = s.members.Clock().Check
	return d
}

// load makes this replica's configuration the newest.
func (s *Scheduler) load(ctx context.Context) error {
	number, err := s.store.Load(ctx, s.members.Session().ID, s.definitions())
	if err != nil {
		return err
	}
	s.members.SetConfig(number)
	return nil
}

// goBy gives each pool the definition that governs, and returns which work of the pools is left to others.
func (s *Scheduler) goBy(others []ledger.OtherPool) (left []string) {
	for _, row := range others {
		if what := s.plan.Left(row); what != "" {
			left = append(left, what)
		}
	}
	s.work.GoBy(others)
	return left
}
