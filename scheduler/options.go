package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// WhenDown says what happens while the lock service cannot be reached.
type WhenDown string

const (
	DownStore WhenDown = "store" // the row decides alone
	DownWait  WhenDown = "wait"  // nothing starts
)

// Store is where a replica keeps all its data: a *store.Store.
type Store interface {
	Sides() ledger.Sides // a replica uses the side of replicas
}

// Options of a replica. The zero value works; zero fields mean the defaults beside them.
type Options struct {
	ID           string            // replica id, unique among live replicas, at most 128 bytes; default <host>-<8 hex>
	Workers      int               // attempts at once over all pools; default 64
	Labels       map[string]string // what runs_on of a job is compared with
	SessionTTL   time.Duration     // without heartbeats for this long, the session expires; default 10s, at least 1s
	DrainTimeout time.Duration     // how long a drain lets work finish; default 25s. Run takes longer, see there
	StopGrace    time.Duration     // how long work that was asked to stop may take, unless it says so itself; default 10s
	MaxClockSkew time.Duration     // between database and replica; beyond it nothing is decided; default 2s
	WhenDown     WhenDown          // default store

	// LockService names the lock service. All replicas of a store must agree: Run refuses a replica whose
	// name differs from that of the live ones, or whose edition of this module keeps locks in another way there
	// (driver.Protocol). The name must tell this lock service from any other: servers, database, namespace, in at most 220 bytes;
	// without a lock service, it is StoreLocks. Default: StoreLocks without a lock service, with the backend of JobLocks if those are
	// elsewhere, and with the name of the set; else the name of the backend, with this process where the backend excludes
	// within one process only. The default is the same for two servers of one kind.
	LockService string

	// JobLocks is the lock service of the locks of jobs and pools. Default: the lock service that New is given.
	// Without one, jobs and pools with locks are an error.
	JobLocks Locks

	// ConfigAt is when the file was written that the set comes from. It is shown beside the hash of its content; zero: not known.
	ConfigAt time.Time

	Retention   jobs.Retention // default: triggers 30 days, succeeded 2, failed 14, output 7
	OutputLimit int            // bytes kept of one attempt's output, half head, half tail, also of what a worker sends; default 64 KiB, at most limits.Output
	Version     string         // shown by the page, the API and the CLI
	Address     string         // of the replica's API; shown by the page, the API and the CLI
	Logger      *slog.Logger
	Observer    Observer // is told what happens, for metrics; default, also for a nil pointer: nothing is
}

const day = 24 * time.Hour

func (o Options) withDefaults() (Options, error) {
	if o.ID == "" {
		o.ID = cmp.Or(hostname(), "replica") + "-" + uuid.NewString()[:8]
	}
	fill(&o.Workers, 64)
	fill(&o.SessionTTL, 10*time.Second)
	fill(&o.DrainTimeout, 25*time.Second)
	fill(&o.StopGrace, 10*time.Second)
	fill(&o.MaxClockSkew, 2*time.Second)
	fill(&o.WhenDown, DownStore)
	fill(&o.Retention.Triggers, 30*day)
	fill(&o.Retention.Succeeded, 2*day)
	fill(&o.Retention.Failed, 14*day)
	fill(&o.Retention.Output, 7*day)
	fill(&o.OutputLimit, limits.KeptOutput)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if nilcheck.IsNil(o.Observer) { // a nil *metrics.Metrics is a non-nil interface
		o.Observer = unmeasured{}
	}
	return o, o.validate()
}

// validate reports all that is wrong with options after their defaults are set, each with its field.
func (o Options) validate() error {
	var wrong []error
	add := func(field, format string, args ...any) {
		wrong = append(wrong, &jobs.FieldError{Path: "Options." + field, Problem: fmt.Sprintf(format, args...)})
	}
	if len(o.ID) > maxID || !utf8.ValidString(o.ID) || strings.ContainsFunc(o.ID, func(r rune) bool { return !unicode.IsPrint(r) }) {
		add("ID", "%.80q is no id; use at most %d bytes of printable text", o.ID, maxID)
	}
	if len(o.LockService) > limits.LockService || !utf8.ValidString(o.LockService) {
		add("LockService", "%.80q has %d bytes; use at most %d bytes of text", o.LockService, len(o.LockService), limits.LockService)
	}
	if o.SessionTTL < time.Second {
		add("SessionTTL", "%v is shorter than 1s", o.SessionTTL)
	}
	if o.Workers < 0 {
		add("Workers", "%d is negative; leave it zero for the default", o.Workers)
	}
	if o.OutputLimit < 0 || o.OutputLimit > limits.Output {
		add("OutputLimit", "%d is not within 1 … %d bytes", o.OutputLimit, limits.Output)
	}
	if o.WhenDown != DownStore && o.WhenDown != DownWait {
		add("WhenDown", "%.80q is neither %q nor %q", o.WhenDown, DownStore, DownWait)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"DrainTimeout", o.DrainTimeout}, {"StopGrace", o.StopGrace}, {"MaxClockSkew", o.MaxClockSkew},
		{"Retention.Triggers", o.Retention.Triggers}, {"Retention.Succeeded", o.Retention.Succeeded},
		{"Retention.Failed", o.Retention.Failed}, {"Retention.Output", o.Retention.Output},
	} {
		if d.value < 0 {
			add(d.field, "%v is negative; leave it zero for the default", d.value)
		}
	}
	for key, problem := range naming.LabelProblems(o.Labels) {
		add("Labels"+key, "%s", problem)
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return nil
}

// maxID is how many bytes of an id the store keeps.
const maxID = 128

func fill[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}
