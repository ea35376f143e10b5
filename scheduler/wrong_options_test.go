package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Wrong options are refused before anything begins, all at once and each with its field.
func TestWrongOptions(t *testing.T) {
	st := &memstore.Store{Database: memstore.New()}
	for want, o := range map[string]scheduler.Options{
		`Options.ID: "a\nb" is no id; use at most 128 bytes of printable text`:                                                               {ID: "a\nb"},
		`Options.ID: "\xff" is no id; use at most 128 bytes of printable text`:                                                               {ID: "\xff"},
		`Options.ID: "` + strings.Repeat("a", 80) + `" is no id; use at most 128 bytes of printable text`:                                    {ID: strings.Repeat("a", 129)},
		`Options.LockService: "` + strings.Repeat("x", 80) + `" has 221 bytes; use at most 220 bytes of text`:                                {LockService: strings.Repeat("x", 221)},
		`Options.SessionTTL: 999ms is shorter than 1s`:                                                                                       {SessionTTL: 999e6},
		`Options.Workers: -1 is negative; leave it zero for the default`:                                                                     {Workers: -1},
		`Options.OutputLimit: -1 is not within 1 … 4194304 bytes`:                                                                            {OutputLimit: -1},
		`Options.WhenDown: "maybe" is neither "store" nor "wait"`:                                                                            {WhenDown: "maybe"},
		`Options.DrainTimeout: -1ns is negative; leave it zero for the default`:                                                              {DrainTimeout: -1},
		`Options.StopGrace: -1ns is negative; leave it zero for the default`:                                                                 {StopGrace: -1},
		`Options.MaxClockSkew: -1ns is negative; leave it zero for the default`:                                                              {MaxClockSkew: -1},
		`Options.Retention.Triggers: -1ns is negative; leave it zero for the default`:                                                        {Retention: jobs.Retention{Triggers: -1}},
		`Options.Retention.Succeeded: -1ns is negative; leave it zero for the default`:                                                       {Retention: jobs.Retention{Succeeded: -1}},
		`Options.Retention.Failed: -1ns is negative; leave it zero for the default`:                                                          {Retention: jobs.Retention{Failed: -1}},
		`Options.Retention.Output: -1ns is negative; leave it zero for the default`:                                                          {Retention: jobs.Retention{Output: -1}},
		`Options.Labels.a b: "a b" is not a name; use letters, digits and . _ -, a letter or digit first, at most 64`:                        {Labels: map[string]string{"a b": ""}},
		`Options.Labels.zone: must be at most 255 bytes of printable text`:                                                                   {Labels: map[string]string{"zone": "a\x00"}},
		"Options.Workers: -2 is negative; leave it zero for the default\nOptions.StopGrace: -2ns is negative; leave it zero for the default": {Workers: -2, StopGrace: -2},
	} {
		_, err := scheduler.New(ledger.Sides{Replica: st}, nil, jobs.Set{}, o)
		if d := cmp.Diff("scheduler: "+want, fmt.Sprint(err)); d != "" {
			t.Error(d)
		}
	}
	const named = `scheduler: Options.LockService: "redis at x" is named, and New was given no locks; give it those of that service, ` +
		`or leave the name empty: the store's own database is the lock service then`
	const none = "scheduler: New: the locks are a nil *locks.Locker; look at the error of what made them, " +
		"or give nil itself if the store's own database is to be the lock service"
	for _, c := range []struct {
		lk    scheduler.Locks
		named string
		want  string
	}{
		{nil, "", "<nil>"},
		{nil, scheduler.StoreLocks, "<nil>"},
		{nil, "redis at x", named},
		{(*locks.Locker)(nil), "redis at x", none},
		{(*locks.Locker)(nil), "", none},
		{newLocker(t, memlock.New()), "redis at x", "<nil>"},
	} {
		_, err := scheduler.New(ledger.Sides{Replica: st}, c.lk, jobs.Set{}, scheduler.Options{LockService: c.named})
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("locks %v named %q: %s, want %s", c.lk, c.named, got, c.want)
		}
	}
	for what, st := range map[string]scheduler.Store{"nil": nil, "a nil pointer": (*store.Store)(nil), "without the side of replicas": ledger.Sides{}} {
		if _, err := scheduler.New(st, nil, jobs.Set{}, scheduler.Options{}); err == nil || err.Error() != "scheduler: New: the store is nil" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := scheduler.New(ledger.Sides{Replica: st}, nil, jobs.Set{}, scheduler.Options{ID: strings.Repeat("ä", 64), SessionTTL: time.Second, Labels: map[string]string{"zone": ""}}); err != nil {
		t.Errorf("as long and as short as they may be: %v", err)
	}
}
