// Package metrics has the metrics of a replica and its store for Prometheus.
//
// A [Metrics] is for scheduler.Options.Observer and locks.Options.Observer, and is a [prometheus.Collector]: serve its
// Handler, or register it with your registry.
//
//	m := metrics.New(st, metrics.Options{})
//	lk, _ := locks.New(drv, locks.Options{Observer: m})
//	s, _ := scheduler.New(st, lk, set, scheduler.Options{Observer: m})
//	go m.Run(ctx, s)
//	http.Handle("/metrics", m.Handler())
//
// A process with several schedulers creates one Metrics for each and registers it under its own label, with
// prometheus.WrapRegistererWith.
//
// docs/metrics.md lists all metrics. Label values are names of jobs and pools, and fixed words; never ids, errors or
// kinds.
package metrics

import (
	"cmp"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Store is where Metrics reads: a *store.Store.
type Store interface {
	Sides() ledger.Sides // of which it uses API
}

// Replica is a running replica; *scheduler.Scheduler is one.
type Replica interface {
	Set() jobs.Set
	Vitals() wire.Vitals
}

// Options of Metrics. The zero value works.
type Options struct {
	Version string // of the program
	// Refresh is the interval of reads of the store; 15 s if zero, at least 1 s. If reads are slow the interval grows,
	// up to 2 minutes, so that they take 2 % of one connection's time.
	Refresh time.Duration
}

// Metrics collects the counters of one replica, and what Run reads. It is safe for concurrent use.
type Metrics struct {
	store   ledger.API // nil: there is none
	opt     Options
	watched atomic.Pointer[watched] // what Run was given
	page    atomic.Pointer[page]    // what was read last; nil: nothing yet
	scraped atomic.Int64            // of the last scrape, in Unix nanoseconds
	wakeup  chan struct{}           // there is a scrape
	handler http.Handler
	expiry  func() time.Time // of a server's certificate; nil: there is none
	usable  func() bool      // the files of the configuration; nil: there are none
	*counters
}

// watched is a replica and what it has by a configuration.
type watched struct {
	Replica
	config int64    // number of the configuration
	set    jobs.Set // with defaults
	pools  []string
}

func newWatched(r Replica, config int64) *watched {
	set := r.Set().WithDefaults()
	return &watched{r, config, set, slices.Sorted(maps.Keys(set.Pools))}
}

// current is what is watched of w's replica under the configuration that v names: a reload may have brought another one.
func (m *Metrics) current(w *watched, v wire.Vitals) *watched {
	if w.config == v.Config {
		return w
	}
	w = newWatched(w.Replica, v.Config)
	for _, name := range w.pools {
		m.begin(name)
	}
	m.watched.Store(w)
	return w
}

// New returns the Metrics of a replica, and of st if that is not nil. It calls nothing.
func New(st Store, o Options) *Metrics {
	o.Refresh = max(cmp.Or(o.Refresh, 15*time.Second), time.Second)
	m := &Metrics{opt: o, wakeup: make(chan struct{}, 1), counters: newCounters()}
	if !nilcheck.IsNil(st) {
		m.store = st.Sides().API
	}
	own := prometheus.NewRegistry()
	own.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(own, promhttp.HandlerOpts{MaxRequestsInFlight: 8})
	return m
}

// Handler serves the metrics, with those of the Go runtime and the process. It calls no server: values of the store are
// from the last refresh.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Certificate adds the expiry of the API's certificate. It is called before the first scrape.
func (m *Metrics) Certificate(end func() time.Time) { m.expiry = end }

// Configuration adds whether the files of the configuration can be used. It is called before the first scrape.
func (m *Metrics) Configuration(usable func() bool) { m.usable = usable }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.vectors(func(c prometheus.Collector) { c.Describe(to) })
	for _, f := range slices.Concat(stands, stored) {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector. It calls no server.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.noteScrape()
	r, v := m.watched.Load(), wire.Vitals{}
	if r != nil {
		v = r.Vitals()
		r = m.current(r, v) // before the counters: it begins those of new pools
	}
	m.vectors(func(c prometheus.Collector) { c.Collect(to) })
	to <- buildInfo.of(1, m.opt.Version, runtime.Version())
	if m.expiry != nil {
		to <- certificateExpiry.of(float64(m.expiry().Unix()))
	}
	if m.usable != nil {
		to <- configurationUsable.of(bit(m.usable()))
	}
	now := time.Now()
	if r != nil {
		for _, f := range stands {
			if f.value != nil {
				to <- f.of(f.value(v))
			}
		}
		to <- lockUp.of(bit(v.LockUp), v.Backend)
		if v.Pinged != nil {
			to <- pingUp.of(bit(*v.Pinged))
		}
		for _, pool := range r.pools {
			to <- running.of(float64(v.Running[pool]), pool)
		}
		if !v.Now.IsZero() {
			now = v.Now
		}
	}
	if p := m.page.Load(); p != nil {
		p.collect(to, now)
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
