package api

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestPoolsByKey: a pool shows its limits and its order by key, and one without shows nothing of them.
func TestPoolsByKey(t *testing.T) {
	const none = `{"name":"mail","workers":10,"paused":false,"pending":0,"scheduled":0,"running":0}`
	limits := jobs.KeyLimits{MaxRunning: 2, Rate: jobs.Rate{Count: 5, Per: time.Second}, Burst: 10}
	for shows, row := range map[string]ledger.PoolStatus{
		`"per_key":{"max_running":2,"rate":"5/s","burst":10},`: {PerKey: limits},
		`"per_key":{"rate":"1/d"},"order":"key",`:              {PerKey: jobs.KeyLimits{Rate: jobs.Rate{Count: 1, Per: 24 * time.Hour}}, Order: jobs.OrderKey},
		`"fair":{"weights":{"big":3}},`:                        {Fair: &jobs.Fair{Weights: map[string]int{"big": 3}}},
		`"order":"key","fair":{},`:                             {Order: jobs.OrderKey, Fair: &jobs.Fair{}},
		`"order":"key",`:                                       {Order: jobs.OrderKey},
		``:                                                     {},
	} {
		b := newBackend()
		row.Name, row.Hash = "mail", "h"
		b.pools, b.set.Pools = []ledger.PoolStatus{row}, map[string]jobs.Pool{"mail": {}}
		h, want := b.api(Options{}), strings.Replace(none, `"paused"`, shows+`"paused"`, 1)
		if w := ask(t, h, "GET", "/api/v1/pools", ""); w.Body.String() != `{"items":[`+want+"]}\n" {
			t.Errorf("listed: %d %s\nwant %s", w.Code, w.Body, want)
		}
		if w := ask(t, h, "POST", "/api/v1/pools/mail/limits?reset=true", ""); w.Body.String() != want+"\n" {
			t.Errorf("of a change: %d %s\nwant %s", w.Code, w.Body, want)
		}
	}
}
