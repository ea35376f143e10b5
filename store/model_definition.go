package store

import (
	"cmp"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// jobModel is a row of {jobs}.
type jobModel struct {
	Name                                string `gorm:"primaryKey"`
	Stripe                              int
	Hash, Schedule                      string
	Config, CursorAt, NextAt, WaitingAt int64
	Fence                               int64
	Suspended                           *bool
	SuspendedBy                         string
	BusyUntil                           int64
}

var jobColumns = columnsOf(jobModel{})

func (m jobModel) id() string { return m.Name }

// due is the next undecided due time.
func (m *jobModel) due() time.Time {
	return ledger.Undecided(fromMicros(m.NextAt), fromMicros(m.WaitingAt))
}

func (m *jobModel) status() ledger.JobStatus {
	return ledger.JobStatus{
		Job: wire.Job{
			Name: m.Name, Suspended: m.Suspended != nil && *m.Suspended, Override: m.Suspended, SuspendedBy: m.SuspendedBy,
			Retired: m.Hash == "", NextAt: m.due(),
		},
		Hash: m.Hash, Config: m.Config, Cursor: fromMicros(m.CursorAt), Fence: m.Fence,
	}
}

// poolModel is a row of {pools}.
type poolModel struct {
	Name                    string `gorm:"primaryKey"`
	Hash                    string
	Config                  int64
	MaxRunning, MaxAttempts int
	Rate                    storedRate
	Burst                   int
	SetMaxRunning, SetBurst *int // an override; nil: none
	SetRate                 *storedRate
	LimitsBy                string
	BucketFullAt            ledger.Bucket
	KeyMaxRunning           int // this and the next two are limits of the tasks with one key
	KeyRate                 storedRate
	KeyBurst                int
	KeyOrder                string                  // a jobs.Order; empty: none
	KeyFair                 encoded[map[string]int] // weights; nil: the keys do not share
	KeyPass                 int64
	KindLimits              encoded[map[string]jobs.KindLimits]
	OnLost                  string
	LostLimit               int
	Paused                  *bool
	PausedBy                string
	PauseWindow             string // a ledger.PauseWindow
	PauseReason             string
	Kinds                   encoded[handled]
}

// storedRate is a rate as {pools} keeps it: its text, which is empty without one.
type storedRate jobs.Rate

// Scan implements sql.Scanner.
func (r *storedRate) Scan(value any) error {
	var text sql.NullString
	if err := text.Scan(value); err != nil {
		return err
	}
	rate, err := jobs.ParseRate(cmp.Or(text.String, "0"))
	*r = storedRate(rate)
	return err
}

// Value implements driver.Valuer.
func (r storedRate) Value() (driver.Value, error) { return rateText(jobs.Rate(r)), nil }

// text is the parameter for a column that may be NULL.
func (r *storedRate) text() any {
	if r == nil {
		return nil
	}
	return rateText(jobs.Rate(*r))
}

func rateText(r jobs.Rate) string {
	if r == (jobs.Rate{}) {
		return ""
	}
	return r.String()
}

// perKey is what a pool has by key, and by kind.
type perKey struct {
	ledger.Limits
	kinds map[string]ledger.Limits // nil: none
	order string
	fair  bool
}

// some reports whether there is anything.
func (k perKey) some() bool { return !k.None() || k.kinds != nil || k.order != "" || k.fair }

func (k perKey) equal(to perKey) bool {
	return k.Limits == to.Limits && maps.Equal(k.kinds, to.kinds) && k.order == to.order && k.fair == to.fair
}

// of are the limits of a key: none for tasks without one.
func (k perKey) of(key string) ledger.Limits {
	if kind, is := strings.CutPrefix(key, ofKind); is {
		return k.kinds[kind]
	}
	if key == "" {
		return ledger.Limits{}
	}
	return k.Limits
}

func (m *poolModel) perKey() perKey {
	return keysOf(jobs.KeyLimits{MaxRunning: m.KeyMaxRunning, Rate: jobs.Rate(m.KeyRate), Burst: m.KeyBurst}, m.KindLimits.is, jobs.Order(m.KeyOrder), m.fair())
}

func keysOf(l jobs.KeyLimits, kinds map[string]jobs.KindLimits, order jobs.Order, fair *jobs.Fair) perKey {
	k := perKey{Limits: ledger.Limits{MaxRunning: l.MaxRunning, Rate: l.Rate, Burst: l.Burst}, fair: fair != nil}
	if order == jobs.OrderKey {
		k.order = string(order)
	}
	if k.order != "" || k.fair { // refused beside limits by kind
		return k
	}
	for kind, l := range kinds {
		if l := (ledger.Limits{MaxRunning: l.MaxRunning, Rate: l.Rate, Burst: l.Burst}); !l.None() {
			if k.kinds == nil {
				k.kinds = map[string]ledger.Limits{}
			}
			k.kinds[kind] = l
		}
	}
	return k
}

// ofKind begins the key of {keys} and {key_waits} for the tasks of a kind. No task has such a key.
const ofKind = "\x01"

// kindsText is the parameter for kind_limits.
func kindsText(kinds map[string]jobs.KindLimits) any {
	text, _ := json.Marshal(kinds) // it always encodes
	return text
}

// weightsOf are what a pool's row keeps of the sharing of its keys.
func weightsOf(f *jobs.Fair) map[string]int {
	switch {
	case f == nil:
		return nil
	case f.Weights == nil:
		return map[string]int{}
	}
	return f.Weights
}

// weightsText is the parameter for key_fair.
func weightsText(f *jobs.Fair) any {
	text, _ := json.Marshal(weightsOf(f)) // it always encodes
	return text
}

func (m *poolModel) fair() *jobs.Fair {
	if m.KeyFair.is == nil {
		return nil
	}
	return &jobs.Fair{Weights: m.KeyFair.is}
}

// setKeys writes what a definition says of keys into the row.
func (m *poolModel) setKeys(k perKey, d *ledger.PoolDef) {
	m.KeyMaxRunning, m.KeyRate, m.KeyBurst, m.KeyOrder = k.MaxRunning, storedRate(k.Rate), k.Burst, k.order
	m.KeyFair.is, m.KindLimits.is = weightsOf(d.Fair), d.PerKind
}

func (m poolModel) id() string { return m.Name }

func (m *poolModel) status() ledger.PoolStatus {
	return ledger.PoolStatus{
		Name: m.Name, Hash: m.Hash, Limits: m.limits(), Override: m.override(), LimitsBy: m.LimitsBy,
		PerKey: jobs.KeyLimits{MaxRunning: m.KeyMaxRunning, Rate: jobs.Rate(m.KeyRate), Burst: m.KeyBurst}, PerKind: m.KindLimits.is,
		Order: jobs.Order(m.KeyOrder), Fair: m.fair(),
		Paused: m.Paused, PausedBy: m.PausedBy, PauseReason: m.PauseReason, Kinds: m.Kinds.is.governs(m.Hash),
	}
}

// limits are those that hold.
func (m *poolModel) limits() ledger.Limits {
	own := ledger.Limits{MaxRunning: m.MaxRunning, Rate: jobs.Rate(m.Rate), Burst: m.Burst}
	if o := m.override(); o != nil {
		return own.Under(*o)
	}
	return own
}

// override is what the API has set of the limits; nil if nothing.
func (m *poolModel) override() *wire.PoolLimits {
	o := wire.PoolLimits{MaxRunning: m.SetMaxRunning, Rate: (*jobs.Rate)(m.SetRate), Burst: m.SetBurst}
	if o == (wire.PoolLimits{}) {
		return nil
	}
	return &o
}

// set is LimitPool in the row.
func (m *poolModel) set(o *wire.PoolLimits, by string) {
	if o == nil {
		m.SetMaxRunning, m.SetRate, m.SetBurst, m.LimitsBy = nil, nil, nil, ""
		return
	}
	m.SetMaxRunning, m.SetBurst = cmp.Or(o.MaxRunning, m.SetMaxRunning), cmp.Or(o.Burst, m.SetBurst)
	m.SetRate = cmp.Or((*storedRate)(o.Rate), m.SetRate)
	m.LimitsBy = clip.Text(by, limits.By)
}

// kindsModel is a row of {kinds}.
type kindsModel struct {
	Pool   string `gorm:"primaryKey"`
	Config int64  `gorm:"primaryKey;autoIncrement:false"`
	Kinds  encoded[handled]
}

// standingModel is a row of {standings}.
type standingModel struct {
	Kind, Name               string `gorm:"primaryKey"`
	Failing                  bool
	LastSuccessAt, LastEndAt int64
}

func (m standingModel) of() subject { return subject{m.Kind, m.Name} }
