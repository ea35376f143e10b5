package membership

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Options of a Member. All of them are set; package scheduler has the defaults.
type Options struct {
	ID           string // of the replica
	Version      string
	Address      string
	Workers      int
	Labels       map[string]string
	LockService  string // its name; all replicas of a store must agree
	SessionTTL   time.Duration
	MaxClockSkew time.Duration
	Local        bool // all replicas are on this machine
	Logger       *slog.Logger
}

// Hooks are called when something has changed. None may be nil.
type Hooks struct {
	Renewed func(ctx context.Context) // after each heartbeat; ctx ends with the time of that heartbeat
	Died    func(session string)      // the own session was expired by another replica
	Peers   func(live []string)       // the replicas that take part were read
	Expired func()                    // this replica expired the session of another one
	Changed func()                    // replicas have started or ended, or have another configuration
}

// Member is this replica among the others: its session, its clock, its peers, and which of the services that it needs
// answer.
type Member struct {
	store  ledger.Sessions
	opt    Options
	on     Hooks
	log    *slog.Logger
	clock  *Clock
	health health

	session      atomic.Pointer[Session]
	joined       string // a session whose first heartbeat has had no answer; of Join alone
	died         string // the own session that expired last; of Keep alone
	config       atomic.Pointer[Configuration]
	replicas     atomic.Pointer[[]ledger.Peer] // the live ones, this one too, as of the last look
	sessionsLost atomic.Int64                  // of this replica
	expired      atomic.Int64                  // sessions of others
	workers      atomic.Int64                  // sessions of live workers, as of the last look
	others       atomic.Int64                  // replicas beside this one that take part, as of the last look
	lookNow      chan struct{}                 // look at peers now
}

// New makes a member of the replicas of st. It has no session before Join.
func New(st ledger.Sessions, o Options, on Hooks) *Member {
	return &Member{
		store: st, opt: o, on: on, log: o.Logger, clock: NewClock(o.MaxClockSkew), health: health{log: o.Logger}, lookNow: wake.Signal(),
	}
}

// Session is the present one; nil before the first Join.
func (m *Member) Session() *Session { return m.session.Load() }

// Workers is how many workers were live when this replica last looked.
func (m *Member) Workers() int { return int(m.workers.Load()) }

// Others is how many replicas beside this one took part when it last looked.
func (m *Member) Others() int { return int(m.others.Load()) }

// Clock is the one that decisions are made by.
func (m *Member) Clock() *Clock { return m.clock }

// Configuration is what this replica has loaded.
type Configuration struct {
	Number int64     // 0: none yet
	Hash   string    // of its content
	At     time.Time // when its file was written; zero: unknown
}

// SetConfig sets the configuration that was loaded. A replica that joins again keeps it: it becomes no newer by that.
func (m *Member) SetConfig(c Configuration) { m.config.Store(&c) }

// Config is the configuration that was loaded last.
func (m *Member) Config() Configuration {
	if c := m.config.Load(); c != nil {
		return *c
	}
	return Configuration{}
}

// Replicas are the live ones, this one too, as of the last look.
func (m *Member) Replicas() []ledger.Peer {
	if all := m.replicas.Load(); all != nil {
		return *all
	}
	return nil
}

// WatchEvery is how often this replica looks at what the others do.
func (m *Member) WatchEvery() time.Duration { return min(watchEvery, m.opt.SessionTTL/4) }

// SetDraining tells the others that this replica takes nothing new.
func (m *Member) SetDraining(ctx context.Context) {
	_ = m.store.SetDraining(ctx, m.Session().ID) // after an error Watch does so
}

// Leave ends the session, so that it need not expire.
func (m *Member) Leave(ctx context.Context) error { return m.store.Leave(ctx, m.Session().ID) }

// moment is now, on the clock that decides when a session is silent. Where all replicas are on this machine, that
// clock stops while the machine sleeps: all of them sleep, so a closed lid expires no session.
func (m *Member) moment() boottime.Instant {
	if m.opt.Local {
		return boottime.Awake()
	}
	return boottime.Now()
}

func (m *Member) describe() ledger.Member {
	host, _ := os.Hostname()
	self, config := process.Self(), m.Config()
	return ledger.Member{
		Replica: m.opt.ID, Host: host, PID: self.PID, PIDStart: self.Start, BootID: self.Boot,
		Config: config.Number, ConfigHash: config.Hash, ConfigAt: config.At, Version: m.opt.Version, Address: m.opt.Address,
		Workers: m.opt.Workers, Labels: m.opt.Labels, LockService: m.opt.LockService, TTL: m.opt.SessionTTL,
	}
}
