package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
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
//  3. leave the jobs and the work of pools that a newer configuration has otherwise, and say so; where this one governs, say which
//     replicas have older ones
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
		got, news, err := s.assert(ctx)
		if err != nil {
			s.members.StoreFailed(err)
			if wake.Wait(ctx, time.Second, nil) {
				wake.Send(s.wakeGovern)
			}
			continue
		}
		if news {
			wait = governAgain
		}
		if !got.Governs && (wait == governAgain || len(got.Jobs)+len(got.Pools) > 0) {
			again.Reset(wait)
		}
		s.triggers.Refresh(ctx)
	}
}

// assert makes this replica's configuration hold if it governs; otherwise this replica leaves to others what a newer one has otherwise.
// news: what it leaves has changed.
func (s *Scheduler) assert(ctx context.Context) (got ledger.Assertion, news bool, err error) {
	if err := s.configure(ctx); err != nil {
		return got, false, err
	}
	defer s.configured()
	if err := s.learnNamespace(ctx); err != nil {
		return got, false, err
	}
	return s.assertNow(ctx)
}

// configure waits until no other call loads, asserts or replaces the configuration; call configured afterwards.
func (s *Scheduler) configure(ctx context.Context) error {
	select {
	case s.configuring <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the configuration is being loaded: %w", jobs.ErrUnavailable, ctx.Err())
	}
}

func (s *Scheduler) configured() { <-s.configuring }

// assertNow is assert for a caller that holds s.configuring.
func (s *Scheduler) assertNow(ctx context.Context) (got ledger.Assertion, news bool, err error) {
	session := s.members.Session().ID
	before := s.asserted
	s.asserted = asserted{}
	d := s.definitions()
	if before.session == session {
		d.Since, d.Changed = before.number, before.changed
	}
	got, err = s.store.Assert(ctx, session, d)
	if errors.Is(err, ledger.ErrRenumbered) { // a user has made its content the newest, or it joined while it loaded another one
		if err = s.enter(ctx, session, false); err == nil {
			got, err = s.store.Assert(ctx, session, s.definitions())
		}
	}
	if err != nil {
		return got, false, err
	}
	if got.Governs {
		s.asserted = asserted{session: session, number: s.members.Config().Number}
	}
	s.triggers.Replacing(false)
	s.governs.Store(got.Governs)
	left, adjusted := s.goBy(got.Pools), s.adjusted(got.Pools)
	newsOfJobs := s.triggers.LeaveJobs(got.Jobs)
	newsOfPools := !slices.Equal(left, *s.foreignPools.Swap(&left))
	newsOfSettings := !slices.Equal(adjusted, *s.foreignSettings.Swap(&adjusted))
	news = newsOfJobs || newsOfPools || newsOfSettings
	if news && !got.Governs {
		s.members.ReadPeers(ctx) // to name the newer one
	}
	var named []any // which configurations those are
	if own, newer := s.configurations(); newer != "" {
		named = []any{"newer", newer, "own", own}
	}
	if newsOfJobs && len(got.Jobs) > 0 {
		s.log.Warn("jobs differ from another replica's newer configuration, and are left to that replica; give it the newer file",
			append([]any{"jobs", len(got.Jobs), "such as", strings.Join(got.Jobs[:min(10, len(got.Jobs))], ", ")}, named...)...)
	}
	if newsOfPools && len(left) > 0 {
		s.log.Warn("handlers of pools differ from another replica's newer configuration, and their tasks are left to that replica; give it the newer file",
			append([]any{"pools", len(left), "such as", plan.Some(left)}, named...)...)
	}
	if newsOfSettings && len(adjusted) > 0 {
		s.log.Warn("settings of pools differ from another replica's newer configuration, and its settings hold here, too; give this replica the newer file",
			append([]any{"pools", len(adjusted), "such as", plan.Some(adjusted)}, named...)...)
	}
	s.tellDiffers(ctx, session, got)
	s.sayOlder()
	return got, news, nil
}

// asserted is what this replica has made hold last: rows of jobs are written by others only once another number has been given out.
type asserted struct {
	session string // empty: nothing
	number  int64
	changed []string // names, sorted, of the jobs that the plan has otherwise by now
}

// definitions is what the store keeps of the plan, and the time that edits are made by.
func (s *Scheduler) definitions() ledger.Definitions {
	d := s.plan.Load().Definitions()
	d.Now, d.Number, d.At = s.members.Clock().Check, s.members.Config().Number, s.configAt
	return d
}

// enter gives the session the number of this replica's configuration. With activate it becomes the newest. The caller holds s.configuring.
func (s *Scheduler) enter(ctx context.Context, session string, activate bool) error {
	d := s.definitions()
	d.Activate = activate
	number, err := s.store.Enter(ctx, session, d)
	if err == nil {
		s.members.SetConfig(membership.Configuration{Number: number, Hash: d.Content(), At: d.At})
	}
	return err
}

// load gives this replica's configuration its number, and makes it hold if it is the newest.
func (s *Scheduler) load(ctx context.Context) error {
	if err := s.configure(ctx); err != nil {
		return err
	}
	defer s.configured()
	if err := s.learnNamespace(ctx); err != nil {
		return err
	}
	d := s.definitions()
	number, err := s.store.Load(ctx, s.members.Session().ID, d)
	if err != nil {
		return err
	}
	s.members.SetConfig(membership.Configuration{Number: number, Hash: d.Content(), At: d.At})
	return nil
}

// learnNamespace learns what jitter is drawn in: the name of the set, or else what the store has minted. The caller holds s.configuring.
func (s *Scheduler) learnNamespace(ctx context.Context) (err error) {
	if _, known := s.plan.Namespace(); known {
		return nil
	}
	namespace := s.plan.Load().Set.Name
	if namespace == "" {
		if namespace, err = s.store.Namespace(ctx); err != nil {
			return err
		}
	}
	s.plan.In(namespace)
	return nil
}

// goBy gives each pool the definition that governs, and returns which work of the pools is left to others.
func (s *Scheduler) goBy(others []ledger.OtherPool) (left []string) {
	p := s.plan.Load()
	for _, row := range others {
		if what := p.Left(row); what != "" {
			left = append(left, what)
		}
	}
	s.work.GoBy(others)
	return left
}

// adjusted are the pools whose tasks this replica runs by settings that it has otherwise: those of the newer configuration.
func (s *Scheduler) adjusted(others []ledger.OtherPool) (names []string) {
	p := s.plan.Load()
	for _, row := range others {
		if _, known := p.Pools[row.Name]; known && row.Hash != "" && row.Name != naming.NotificationsPool && p.Left(row) == "" {
			names = append(names, row.Name)
		}
	}
	return names
}

// tellDiffers tells the others what the governing configuration has otherwise. The caller holds s.configuring.
func (s *Scheduler) tellDiffers(ctx context.Context, session string, got ledger.Assertion) {
	what := differences(got)
	if session != s.differsOf {
		s.differs, s.differsOf = "", session
	}
	if what == s.differs {
		return
	}
	if err := s.store.SetDiffers(ctx, session, what); err != nil {
		s.members.StoreFailed(err) // with the next assertion
		return
	}
	s.differs = what
}

// differences are what a configuration has otherwise than the one that governs, in words; "" if nothing.
func differences(got ledger.Assertion) string {
	var pools, words []string
	for _, p := range got.Pools {
		pools = append(pools, p.Name)
	}
	for _, of := range []struct {
		what  string
		names []string
	}{{"job", got.Jobs}, {"pool", pools}} {
		switch n := len(of.names); n {
		case 0:
		case 1:
			words = append(words, fmt.Sprintf("1 %s: %s", of.what, of.names[0]))
		default:
			words = append(words, fmt.Sprintf("%d %ss: %s", n, of.what, plan.Some(of.names)))
		}
	}
	return strings.Join(words, "; ")
}
