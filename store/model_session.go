package store

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// sessionModel is a row of {sessions}.
type sessionModel struct {
	ID, Replica      string
	Dead             bool
	Beat             int64
	Draining         bool
	Config           int64
	LockService      string
	TTL              int64
	Host, BootID     string
	PID              int   `gorm:"column:pid"`
	PIDStart         int64 `gorm:"column:pid_start"`
	Version, Address string
	Workers          int
	Labels           encoded[map[string]string]
	Pool, Owner      string
	Kinds            encoded[[]string]
	JoinedAt, SeenAt int64
	ConfigHash       string
	ConfigAt         int64
	Differs          string
}

var sessionColumns = columnsOf(sessionModel{})

// firstSessionColumns are those that the table has had from the first migration on.
var firstSessionColumns = columnsOf(sessionModel{}, "pool", "kinds", "owner", "config_hash", "config_at", "differs")

func (m *sessionModel) peer() ledger.Peer {
	return ledger.Peer{
		Member: ledger.Member{
			Replica: m.Replica, Host: m.Host, PID: m.PID, PIDStart: m.PIDStart, BootID: m.BootID, Version: m.Version, Address: m.Address,
			Workers: m.Workers, Labels: m.Labels.is, LockService: m.LockService, TTL: time.Duration(m.TTL) * time.Microsecond, Config: m.Config,
			ConfigHash: m.ConfigHash, ConfigAt: fromMicros(m.ConfigAt), Pool: m.Pool, Kinds: m.Kinds.is, Owner: m.Owner,
		},
		Session: m.ID, Beat: m.Beat, Dead: m.Dead, Draining: m.Draining, Differs: m.Differs, JoinedAt: fromMicros(m.JoinedAt), SeenAt: fromMicros(m.SeenAt),
	}
}
