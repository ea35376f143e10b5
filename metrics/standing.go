package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// standing makes metrics of what is true at the moment.
type standing struct{ descs map[*family]*prometheus.Desc }

func newStanding() *standing {
	s := &standing{map[*family]*prometheus.Desc{}}
	for _, f := range slices.Concat(stands, stored) {
		s.descs[f] = f.desc()
	}
	return s
}

// of makes one metric.
func (s *standing) of(f *family, value float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if f.kind == counter {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(s.descs[f], kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(s.descs[f], err)
	}
	return m
}

func (s *standing) gauge(to chan<- prometheus.Metric, f *family, value float64, labels ...string) {
	to <- s.of(f, value, labels...)
}

// vitals is how the replica stands, and what runs in each of its pools.
func (s *standing) vitals(to chan<- prometheus.Metric, v ledger.Vitals, pools []string) {
	s.gauge(to, ready, bit(v.Ready))
	s.gauge(to, draining, bit(v.Draining))
	s.gauge(to, storeUp, bit(v.StoreUp))
	s.gauge(to, lockUp, bit(v.LockUp), v.Backend)
	s.gauge(to, renewalAge, v.RenewalAge.Seconds())
	s.gauge(to, sessionsLost, float64(v.SessionsExpired))
	s.gauge(to, declaredDead, float64(v.PeersExpired))
	s.gauge(to, clockSkew, v.ClockSkew.Seconds())
	s.gauge(to, clockRefused, float64(v.ClockRefused))
	s.gauge(to, configNumber, float64(v.Config))
	s.gauge(to, configDrift, float64(v.Foreign))
	s.gauge(to, configDriftPools, float64(v.ForeignPools))
	s.gauge(to, stripes, float64(v.Stripes))
	s.gauge(to, workers, float64(v.Workers))
	for _, pool := range pools {
		s.gauge(to, running, float64(v.Running[pool]), pool)
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
