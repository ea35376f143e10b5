package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// vitals is how the replica stands, and what runs in each of its pools.
func vitals(to chan<- prometheus.Metric, v ledger.Vitals, pools []string) {
	to <- ready.of(bit(v.Ready))
	to <- draining.of(bit(v.Draining))
	to <- storeUp.of(bit(v.StoreUp))
	to <- lockUp.of(bit(v.LockUp), v.Backend)
	to <- renewalAge.of(v.RenewalAge.Seconds())
	to <- sessionsLost.of(float64(v.SessionsExpired))
	to <- declaredDead.of(float64(v.PeersExpired))
	to <- clockSkew.of(v.ClockSkew.Seconds())
	to <- clockRefused.of(float64(v.ClockRefused))
	to <- configNumber.of(float64(v.Config))
	to <- configDrift.of(float64(v.Foreign))
	to <- configDriftPools.of(float64(v.ForeignPools))
	to <- stripes.of(float64(v.Stripes))
	to <- workers.of(float64(v.Workers))
	for _, pool := range pools {
		to <- running.of(float64(v.Running[pool]), pool)
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
