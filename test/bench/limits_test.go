package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// far are limits that no drain reaches.
var far = jobs.Rate{Count: 1_000_000, Per: time.Second}

// limitings are what a pool may have of limits, and how many keys its tasks have.
var limitings = []struct {
	name  string
	keys  int // 0: the tasks have none
	limit func(p *jobs.Pool)
}{
	{"no limits", 0, func(*jobs.Pool) {}},
	{"no limits, 1,000 keys", 1000, func(*jobs.Pool) {}},
	{"max_running, rate", 0, func(p *jobs.Pool) { p.MaxRunning, p.Rate = 100_000, far }},
	{"per_key: max_running", 1000, func(p *jobs.Pool) { p.PerKey.MaxRunning = 1000 }},
	{"per_key: rate", 1000, func(p *jobs.Pool) { p.PerKey.Rate = far }},
	{"max_running, rate, per_key: both", 1000, func(p *jobs.Pool) {
		p.MaxRunning, p.Rate = 100_000, far
		p.PerKey = jobs.KeyLimits{MaxRunning: 1000, Rate: far}
	}},
	{"per_key: max_running 1", 1000, func(p *jobs.Pool) { p.PerKey.MaxRunning = 1 }},
	{"order: key", 1000, func(p *jobs.Pool) { p.Order = jobs.OrderKey }},
}

// BenchmarkLimits measures claim to finish of tasks that do nothing, in pools with limits: the first ones are never reached, the last two
// are. The ratio is to a pool without limits in the same round.
func BenchmarkLimits(b *testing.B) {
	of := kinds[:2]
	var field []*drained
	for _, k := range of {
		for _, l := range limitings {
			field = append(field, &drained{kind: k, replicas: 1, tasks: sized().tasks, limit: l.limit, keys: l.keys})
		}
	}
	t := newTable(b, fmt.Sprintf("Claim to finish of %s tasks that do nothing, in pools with limits, 1 replica, %d workers", count(float64(sized().tasks)), drainWorkers),
		"", "limits", "tasks/s (min – max)", "of one without", "tasks per claim", "statements per task")
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r) })
	for i, d := range field {
		var ratio samples
		for n := range d.rate {
			ratio = append(ratio, d.rate[n]/field[i/len(limitings)*len(limitings)].rate[n])
		}
		t.add(d.kind.name, limitings[i%len(limitings)].name, d.rate.spread(count), fmt.Sprintf("%.2f", ratio.median()), count(d.perClaim.median()), d.kind.known(d.statements))
	}
	t.print()
}
