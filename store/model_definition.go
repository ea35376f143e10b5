package store

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
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
	OnLost                  string
	Paused                  *bool
	PausedBy                string
	Kinds                   encoded[handled]
}

func (m poolModel) id() string { return m.Name }

func (m *poolModel) status() ledger.PoolStatus {
	return ledger.PoolStatus{
		Name: m.Name, Hash: m.Hash, MaxRunning: m.MaxRunning, Paused: m.Paused, PausedBy: m.PausedBy, Kinds: m.Kinds.is.governs(m.Hash),
	}
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
