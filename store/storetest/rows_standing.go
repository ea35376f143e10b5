package storetest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func sessionRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session, err := s.Store.Join(s.ctx(), ledger.Member{
		Replica: "two", Host: "host", PID: 11, PIDStart: 12, BootID: "boot", Version: "v1", Address: "address", Workers: 13,
		Labels: map[string]string{"zone": "a"}, LockService: "test", TTL: 14 * time.Microsecond, Config: 15, ConfigHash: "hash of 15", ConfigAt: due(16),
	})
	must(t, err)
	got := s.row("sessions", "id=?", session)
	want := row{
		"id": session, "replica": "two", "live": 1, "dead": 0, "beat": 0, "draining": 0, "config": 15, "lock_service": "test", "ttl": 14,
		"host": "host", "boot_id": "boot", "pid": 11, "pid_start": 12, "version": "v1", "address": "address", "workers": 13,
		"labels": `{"zone":"a"}`, "pool": "", "kinds": "null", "owner": "", "config_hash": "hash of 15", "config_at": due(16), "differs": "", "joined_at": got["seen_at"], "seen_at": got["seen_at"],
	}
	s.wantRow("session", got, want)
	now, err := s.Store.Beat(s.ctx(), session)
	must(t, err)
	want = want.with(row{"beat": 1, "seen_at": now})
	s.wantRow("session that beat", s.row("sessions", "id=?", session), want)
	must(t, s.Store.SetDraining(s.ctx(), session))
	want = want.with(row{"draining": 1})
	s.wantRow("session that drains", s.row("sessions", "id=?", session), want)
	must(t, s.Store.Leave(s.ctx(), session))
	s.wantRow("session that left", s.row("sessions", "id=?", session), want.with(row{"live": nil, "dead": 1}))
}

func definedRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := definitions()
	d.Jobs[1].Stripe, d.Jobs[1].Hash, d.Jobs[1].Schedule, d.Jobs[1].SuspendAfter = 17, "hash of b", "schedule of b", 36
	d.Jobs[1].Next = func(time.Time) time.Time { return due(1_000_000) }
	d.Jobs[1].Due = func(time.Time) time.Time { return due(999_999) }
	d.Pools[2] = ledger.PoolDef{Name: "work", Hash: "hash of work", MaxRunning: 18, MaxAttempts: 19, Rate: jobs.Rate{Count: 23, Per: time.Minute}, Burst: 24, LostLimit: 31, PerKey: jobs.KeyLimits{MaxRunning: 1, Rate: jobs.Rate{Count: 29, Per: time.Hour}, Burst: 30}, PerKind: map[string]jobs.KindLimits{"k": {MaxRunning: 32, Rate: jobs.Rate{Count: 33, Per: time.Hour}, Burst: 34}}, Order: jobs.OrderKey, Fair: &jobs.Fair{Weights: map[string]int{"a": 3}}, Retry: true, Kinds: map[string]string{"k": "h"}}
	yes, later := true, time.Now().Add(1000*time.Hour).UTC().Truncate(time.Microsecond)
	_, err := s.Store.SuspendJobs(s.ctx(), []string{"b"}, "alice", ledger.Suspension{Suspended: &yes, Until: later})
	must(t, err)
	must(t, s.Store.SkipNext(s.ctx(), "b", "dave", 36))
	must(t, s.Store.PausePool(s.ctx(), "work", "bob", &yes))
	must(t, s.Store.LimitPool(s.ctx(), "work", "carol", &wire.PoolLimits{MaxRunning: new(25), Rate: &jobs.Rate{Count: 26, Per: time.Hour}, Burst: new(27), PerKey: &wire.LimitFields{Burst: new(35)}}))
	s.DB.Exec(t, "UPDATE {pools} SET bucket_full_at=28 WHERE name='work'")
	s.DB.Exec(t, "UPDATE {jobs} SET fence=20, busy_until=21, waiting_at=22, failures=37, cursor_at=? WHERE name='b'", due(900_000).UnixMicro())
	config, err := s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	job := row{
		"name": "b", "stripe": 17, "hash": "hash of b", "schedule": "schedule of b", "config": config, "cursor_at": due(900_000),
		"next_at": due(1_000_000), "waiting_at": 0, "due_at": due(999_999), "fence": 20, "suspended": 1, "suspended_by": "alice", "suspended_until": later, "skip_next": 36, "skip_by": "dave", "busy_until": 21, "defined": "hash of b",
		"suspend_after": 36, "failures": 37, "suspend_reason": "",
	}
	s.wantRow("job", s.row("jobs", "name='b'"), job)
	kinds := `{"hash":"hash of work","kinds":{"k":"h"}}`
	pool := row{
		"name": "work", "hash": "hash of work", "config": config, "max_running": 18, "max_attempts": 19, "on_lost": "retry", "paused": 1,
		"paused_by": "bob", "kinds": kinds, "rate": "23/m", "burst": 24, "set_max_running": 25, "set_rate": "26/h", "set_burst": 27, "limits_by": "carol",
		"bucket_full_at": 28, "key_max_running": 1, "key_rate": "29/h", "key_burst": 30, "key_order": "key", "lost_limit": 31, "key_fair": `{"a":3}`, "key_pass": 0, "kind_limits": `{"k":{"MaxRunning":32,"Rate":"33/h","Burst":34}}`,
		"pause_window": "", "pause_reason": "", "set_key_limits": `{"per_key":{"burst":35}}`, "keys_left": 0, "keys_moved": nil,
	}
	if _, is := sqlOf(b.Store); !is { // it keeps them in another way
		pool["kinds"] = nil
	}
	s.wantRow("pool", s.row("pools", "name='work'"), pool)
	s.wantRow("kinds", s.row("kinds", "pool='work' AND config=?", config), row{"pool": "work", "config": config, "kinds": kinds})
	s.wantInt(config, "SELECT config FROM {sessions} WHERE id=? AND config_hash=? AND config_at=0", s.session, d.Content())

	s.DB.Exec(t, "UPDATE {jobs} SET waiting_at=22 WHERE name='b'")
	d.Jobs, d.Pools = d.Jobs[:1], d.Pools[:2]
	config, err = s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	s.wantRow("retired job", s.row("jobs", "name='b'"), job.with(row{"hash": "", "schedule": "", "config": config, "next_at": 0, "due_at": 0, "defined": ""}))
	s.wantRow("retired pool", s.row("pools", "name='work'"), pool.with(row{"hash": "", "config": config}))
}
