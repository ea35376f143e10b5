package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// officePools has tasks without a kind, letters and faxes.
func officePools() jobs.Pool {
	return jobs.Pool{Handler: replicatest.Named("bare"), Kinds: map[string]jobs.Handler{"fax": replicatest.Named("fax"), "mail": replicatest.Named("mail")}}
}

// rowFor is the row of such a pool in a newer configuration.
func rowFor(name string, p jobs.Pool) ledger.OtherPool {
	return ledger.OtherPool{Name: name, Hash: p.Hash(), MaxRunning: p.MaxRunning, Rate: p.Rate, Kinds: p.HandlerHashes()}
}

// Of a pool that differs in a newer configuration, a replica may run the kinds that are the same in both, and says which
// kinds it leaves.
func TestWhatOfAPoolIsLeftToANewerConfiguration(t *testing.T) {
	p, err := New(jobs.Set{Pools: map[string]jobs.Pool{"p": officePools(), "limited": {Handler: replicatest.Named("bare"), MaxRunning: 3}, "rated": {Handler: replicatest.Named("bare"), Rate: jobs.Rate{Count: 1, Per: time.Hour}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := func(name string, edit func(p *jobs.Pool)) ledger.OtherPool {
		pool := officePools()
		edit(&pool)
		return rowFor(name, pool)
	}
	many := func(n int) ledger.OtherPool {
		return row("p", func(p *jobs.Pool) {
			for i := range n {
				p.Kinds[fmt.Sprintf("new-%02d", i)] = replicatest.Named("new")
			}
		})
	}
	unsaid := row("p", func(*jobs.Pool) {})
	unsaid.Hash, unsaid.Kinds = "of an older program", nil
	for what, c := range map[string]struct {
		row   ledger.OtherPool
		says  string
		kinds []string // that it may run
	}{
		"the same":      {row("p", func(*jobs.Pool) {}), "", []string{"", "fax", "mail"}},
		"another limit": {row("p", func(p *jobs.Pool) { p.MaxRunning = 7 }), "", []string{"", "fax", "mail"}},
		"a rate":        {row("p", func(p *jobs.Pool) { p.Rate = jobs.Rate{Count: 1, Per: time.Second} }), "", []string{"", "fax", "mail"}},
		"a kind more":   {row("p", func(p *jobs.Pool) { p.Kinds["sms"] = replicatest.Named("sms") }), "p (sms)", []string{"", "fax", "mail"}},
		"a kind less":   {row("p", func(p *jobs.Pool) { delete(p.Kinds, "fax") }), "p (fax)", []string{"", "mail"}},
		"two kinds otherwise": {row("p", func(p *jobs.Pool) {
			p.Kinds["mail"], p.Kinds["fax"] = replicatest.Named("mail 2"), replicatest.Named("fax 2")
		}), "p (fax, mail)", []string{""}},
		"no handler of its own":    {row("p", func(p *jobs.Pool) { p.Handler = nil }), "p (tasks without a kind)", []string{"fax", "mail"}},
		"everything otherwise":     {row("p", func(p *jobs.Pool) { p.Timeout = time.Hour }), "p (tasks without a kind, fax, mail)", []string{}},
		"kinds that are not said":  {unsaid, "p (tasks without a kind, fax, mail)", []string{}},
		"ten kinds more":           {many(10), "p (new-00, new-01, new-02, new-03, new-04, new-05, new-06, new-07, new-08, new-09)", []string{"", "fax", "mail"}},
		"twelve kinds more":        {many(12), "p (new-00, new-01, new-02, new-03, new-04, new-05, new-06, new-07, new-08, new-09 and 2 more)", []string{"", "fax", "mail"}},
		"retired":                  {ledger.OtherPool{Name: "p"}, "p (the newer one does not have the pool)", []string{}},
		"a pool that is not here":  {row("q", func(*jobs.Pool) {}), "q (this replica does not have the pool)", nil},
		"neither has it any more":  {ledger.OtherPool{Name: "q"}, "", nil},
		"that of notifications":    {row(naming.NotificationsPool, func(*jobs.Pool) {}), "", []string{}},
		"notifications are no use": {ledger.OtherPool{Name: naming.NotificationsPool}, "", []string{}},
	} {
		if got := p.Left(c.row); got != c.says {
			t.Errorf("%s: left is %q, want %q", what, got, c.says)
		}
		own, known := p.Pools[c.row.Name]
		if !known {
			continue
		}
		g := own.Under(c.row)
		if kinds := g.KindsOf(own); !slices.Equal(kinds, c.kinds) || kinds == nil {
			t.Errorf("%s: it may run %q, want %q", what, kinds, c.kinds)
		}
		if same := c.row.Hash == own.Hash; g.Hash != c.row.Hash || g.Limited != (c.row.MaxRunning > 0 || c.row.Rate.Count > 0) || g.own != same {
			t.Errorf("%s: governed by %+v", what, g)
		}
		for _, kind := range append([]string{"unknown"}, own.KindNames...) {
			if want := g.own || slices.Contains(c.kinds, kind); g.lets(kind) != want {
				t.Errorf("%s: it may run %q: %t", what, kind, !want)
			}
		}
	}
	if g := p.Pools["rated"].Governs(); !g.Limited {
		t.Errorf("it governs %+v", g)
	}
	if g := p.Pools["limited"].Governs(); !g.Limited || !g.own || g.Hash != p.Pools["limited"].Hash {
		t.Errorf("it governs %+v", g)
	}
}
