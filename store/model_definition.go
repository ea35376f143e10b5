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
	DueAt                               int64 // that starts at NextAt; 0: NextAt itself
	Fence                               int64
	Suspended                           *bool
	SuspendedBy                         string
	SuspendedUntil                      int64
	SkipNext                            int
	SkipBy                              string
	BusyUntil                           int64
	Defined                             string // the hash whose definition is in the history
	SuspendAfter, Failures              int
	SuspendReason                       string
}

var jobColumns = columnsOf(jobModel{})

func (m jobModel) id() string { return m.Name }

// due is the next undecided due time, and when its trigger starts where that is another one.
func (m *jobModel) due() (at, start time.Time) {
	return ledger.Undecided(fromMicros(m.CursorAt), fromMicros(m.DueAt), fromMicros(m.NextAt), fromMicros(m.WaitingAt))
}

// expect writes the first due time after the cursor.
func (m *jobModel) expect(d *ledger.JobDef) {
	due, next := d.Coming(fromMicros(m.CursorAt))
	m.DueAt, m.NextAt, m.WaitingAt = micros(due), micros(next), 0
}

// suspension is the override as it was set.
func (m *jobModel) suspension() ledger.Suspension {
	return ledger.Suspension{Suspended: m.Suspended, Until: fromMicros(m.SuspendedUntil)}
}

func (m *jobModel) status(now time.Time) ledger.JobStatus {
	at, start := m.due()
	s := ledger.JobStatus{
		Job:  wire.Job{Name: m.Name, Failures: m.Failures, SkipNext: m.SkipNext, SkipBy: m.SkipBy, Retired: m.Hash == "", NextAt: at, NextStartAt: start},
		Hash: m.Hash, Config: m.Config, Cursor: fromMicros(m.CursorAt), Fence: m.Fence,
	}
	if is := m.suspension().At(now); is.Suspended != nil {
		s.Suspended, s.Override, s.SuspendedBy, s.SuspendedReason, s.SuspendedUntil = is.Holds(false), is.Suspended, m.SuspendedBy, m.SuspendReason, is.Until
	}
	return s
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
	SetKeyLimits            *encoded[wire.PoolLimits] // by key and kind, an override as SetRate; nil: none
	KeysLeft                bool                      // there are no limits by key any more, and tasks may wait for their keys still
	KeysMoved               *string                   // the order has changed, and tasks have places up to the one with this id, see changeKeys; nil: all
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

// rules are those of the pool's definition.
func (m *poolModel) rules() ledger.KeyRules {
	r := ledger.KeyRules{PerKey: jobs.KeyLimits{MaxRunning: m.KeyMaxRunning, Rate: jobs.Rate(m.KeyRate), Burst: m.KeyBurst}, PerKind: m.KindLimits.is, Order: jobs.Order(m.KeyOrder)}
	if m.KeyFair.is != nil {
		r.Fair = &jobs.Fair{Weights: m.KeyFair.is}
	}
	return r
}

// holds are the rules that hold: those of the definition under the override.
func (m *poolModel) holds() ledger.KeyRules {
	if m.SetKeyLimits == nil {
		return m.rules()
	}
	return m.rules().Under(&m.SetKeyLimits.is)
}

// perKey is what holds by key and kind.
func (m *poolModel) perKey() perKey { return keysOf(m.holds()) }

func keysOf(r ledger.KeyRules) perKey {
	k := perKey{Limits: ledger.Limits(r.PerKey), fair: r.Fair != nil}
	if r.Order == jobs.OrderKey {
		k.order = string(r.Order)
	}
	if k.order != "" || k.fair { // refused beside limits by kind
		return k
	}
	for kind, l := range r.PerKind {
		if l := ledger.Limits(l); !l.None() {
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

// setKeys writes what a definition says of keys into the row.
func (m *poolModel) setKeys(r ledger.KeyRules) {
	k := keysOf(r)
	m.KeyMaxRunning, m.KeyRate, m.KeyBurst, m.KeyOrder = k.MaxRunning, storedRate(k.Rate), k.Burst, k.order
	m.KeyFair.is, m.KindLimits.is = weightsOf(r.Fair), r.PerKind
}

func (m poolModel) id() string { return m.Name }

func (m *poolModel) status() ledger.PoolStatus {
	o, keys := m.override(), m.holds()
	return ledger.PoolStatus{
		Name: m.Name, Hash: m.Hash, Limits: m.limits(), Override: o, Aside: m.rules().Aside(o), LimitsBy: m.LimitsBy,
		PerKey: keys.PerKey, PerKind: keys.PerKind, Order: keys.Order, Fair: keys.Fair,
		Paused: m.Paused, PausedBy: m.PausedBy, PauseReason: m.PauseReason, Kinds: m.Kinds.is.governs(m.Hash),
	}
}

// limits are those that hold.
func (m *poolModel) limits() ledger.Limits {
	own := ledger.Limits{MaxRunning: m.MaxRunning, Rate: jobs.Rate(m.Rate), Burst: m.Burst}
	return own.Under(wire.PoolLimits{MaxRunning: m.SetMaxRunning, Rate: (*jobs.Rate)(m.SetRate), Burst: m.SetBurst})
}

// override is what the API has set of the limits; nil if nothing.
func (m *poolModel) override() *wire.PoolLimits {
	o := wire.PoolLimits{}
	if m.SetKeyLimits != nil {
		o = m.SetKeyLimits.is
	}
	o.MaxRunning, o.Rate, o.Burst = m.SetMaxRunning, (*jobs.Rate)(m.SetRate), m.SetBurst
	if o.None() {
		return nil
	}
	return &o
}

// set is LimitPool in the row.
func (m *poolModel) set(o *wire.PoolLimits, by string) {
	is := wire.PoolLimits{}
	if o != nil {
		if before := m.override(); before != nil {
			is = *before
		}
		is = is.With(*o)
	}
	m.SetMaxRunning, m.SetRate, m.SetBurst, m.SetKeyLimits, m.LimitsBy = is.MaxRunning, (*storedRate)(is.Rate), is.Burst, nil, ""
	if is.None() {
		return
	}
	m.LimitsBy = clip.Text(by, limits.By)
	if is.MaxRunning, is.Rate, is.Burst = nil, nil, nil; !is.None() {
		m.SetKeyLimits = &encoded[wire.PoolLimits]{is}
	}
}

// setKeyText is the parameter for set_key_limits.
func (m *poolModel) setKeyText() any {
	if m.SetKeyLimits == nil {
		return nil
	}
	text, _ := json.Marshal(m.SetKeyLimits.is) // it always encodes
	return text
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
