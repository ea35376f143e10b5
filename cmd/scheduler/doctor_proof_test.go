package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Doctor proves exclusion, order and loss on each lock service within ten seconds.
func TestDoctorProves(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]func(t *testing.T) string{
		"the store's own file": func(*testing.T) string { return "" },
		"redis": func(t *testing.T) string {
			return fmt.Sprintf("lock: {driver: redis, ttl: 3s, redis: {addrs: [%q]}}", servers.Redis(t))
		},
		"zookeeper": func(t *testing.T) string {
			return fmt.Sprintf("lock: {driver: zookeeper, ttl: 5s, zookeeper: {servers: [%q]}}", servers.ZooKeeper(t))
		},
		"mysql-lease": func(t *testing.T) string {
			return fmt.Sprintf("lock: {driver: mysql, mysql: {dsn: %q}}", servers.MySQL(t))
		},
		"mysql-row": func(t *testing.T) string {
			return fmt.Sprintf("lock: {driver: mysql, mysql: {dsn: %q, mode: row}}", servers.MySQL(t))
		},
		"quorum": func(t *testing.T) string {
			one, two, three := servers.NewRedis(t), servers.NewRedis(t), servers.NewRedis(t)
			return fmt.Sprintf("lock: {driver: quorum, ttl: 3s, quorum: {nodes: [{addrs: [%q]}, {addrs: [%q]}, {addrs: [%q]}]}}", one.Addr, two.Addr, three.Addr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := lock(t)
			dir := t.TempDir()
			migrated(t, "sqlite", dir+"/lockstep.db")
			var all []string
			var code int
			await.Until(t, "the servers are older than a ttl", func() bool {
				all, code = runDoctor(t, dir, text)
				return !strings.Contains(strings.Join(all, " "), "recovering")
			})
			wantFinding(t, all, "ok lock: exclusion: while one client held a lock", "ok lock: order: ", "ok lock: loss: the lock of a client that did not renew it", "ok lock: proved in ")
			for _, f := range all {
				if took, is := strings.CutPrefix(f, "ok lock: proved in "); is {
					took, _, _ = strings.Cut(took, ",")
					if d, err := time.ParseDuration(took); err != nil || d > 10*time.Second {
						t.Errorf("it took %s", took)
					}
				}
			}
			if code != exitFine {
				t.Errorf("exit code %d: %v", code, all)
			}
		})
	}
}

// A Redis that does not wait for its replicas may go on granting when it is cut off from them.
func TestDoctorTellsOfReplicas(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"it does not wait": nil, "it waits": {"--min-replicas-to-write", "1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := servers.NewRedis(t, args...)
			host, port, err := net.SplitHostPort(primary.Addr)
			if err != nil {
				t.Fatal(err)
			}
			servers.NewRedis(t, "--replicaof", host+" "+port)
			rdb := redis.NewClient(&redis.Options{Addr: primary.Addr})
			defer rdb.Close()
			await.Until(t, "the replica is connected", func() bool {
				info, err := rdb.Info(t.Context(), "replication").Result()
				return err == nil && strings.Contains(info, "state=online")
			})
			dir := t.TempDir()
			migrated(t, "sqlite", filepath.Join(dir, "lockstep.db"))
			all, code := runDoctor(t, dir, fmt.Sprintf("lock: {driver: redis, redis: {addrs: [%q]}}", primary.Addr))
			const warning = "warning lock: this Redis has 1 replica and does not wait for any"
			if told := slices.ContainsFunc(all, func(f string) bool { return strings.HasPrefix(f, warning) }); told != (args == nil) || code != exitFine {
				t.Errorf("told: %v, exit code %d: %v", told, code, all)
			}
		})
	}
}

// What a lock service does wrong is found by the proof, which passes on one that does not.
func TestDoctorDisproves(t *testing.T) {
	for name, c := range map[string]struct {
		wrong func(s *wrongSession)
		want  string // the error; "": none
	}{
		"nothing":               {func(*wrongSession) {}, ""},
		"no exclusion":          {func(s *wrongSession) { s.apart = true }, "two clients held one key at the same time"},
		"tokens repeat":         {func(s *wrongSession) { s.token = 7 }, "tokens must grow"},
		"the last comes first":  {func(s *wrongSession) { s.backwards = true }, "a client that came later was served before one that waited longer"},
		"sessions end early":    {func(s *wrongSession) { s.claims = 2 }, "before the holder stopped to trust its lease"},
		"sessions end too late": {func(s *wrongSession) { s.claims = 0.2 }, "was not granted to another one"},
		"nobody is served":      {func(s *wrongSession) { s.forgets = true }, "a released lock was not granted to the one that waited"},
		"answers take long":     {func(s *wrongSession) { s.answers = 8 * time.Second }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := memlock.New()
				late := &place{}
				tr := &trial{key: "user/doctor/x", caps: drv.Caps()}
				tr.open = func(ctx context.Context) (*trialClient, error) {
					inner, err := drv.Open(ctx, driver.Open{Namespace: "n", TTL: proofTTL})
					if err != nil {
						return nil, err
					}
					s := &wrongSession{Session: inner, claims: 1, late: late, id: len(tr.clients)}
					c.wrong(s)
					if s.claims < 1 {
						inner.Close(ctx)
						if s.Session, err = drv.Open(ctx, driver.Open{Namespace: "n", TTL: time.Duration(float64(proofTTL) / s.claims)}); err != nil {
							return nil, err
						}
					}
					return &trialClient{Session: s, caps: drv.Caps(), queue: s.Queue(), stop: func() {}}, nil
				}
				defer tr.close(t.Context())
				err := tr.begin(t.Context())
				for _, prove := range []func(context.Context) (string, error){tr.exclusion, tr.order, tr.loss} {
					if err == nil {
						_, err = prove(t.Context())
					}
				}
				if _, disproved := errors.AsType[broken](err); disproved != (c.want != "") || disproved && !strings.Contains(err.Error(), c.want) || err != nil && !disproved {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}

// proofTTL is the ttl of sessions in a test.
const proofTTL = 3 * time.Second

// wrongSession is a session of a service that breaks a promise.
type wrongSession struct {
	driver.Session
	id        int
	apart     bool         // each session has keys of its own
	token     driver.Token // of all grants; 0: right
	real      driver.Token // of the last one
	claims    float64      // its ttl is said to be so many times as long
	backwards bool         // of two that wait the last one comes first
	late      *place
	forgets   bool          // who waits is never told that it has the key
	answers   time.Duration // how long it takes to say that a key is busy
}

// place is the request of one that came first, and is sent last.
type place struct{ ask func() }

func (s *wrongSession) TTL() time.Duration {
	if s.claims < 1 {
		return proofTTL
	}
	return time.Duration(float64(s.Session.TTL()) * s.claims)
}

func (s *wrongSession) TryAcquire(ctx context.Context, id string, wants []driver.Want) ([]driver.Result, error) {
	if s.apart {
		wants = []driver.Want{{Key: fmt.Sprint(wants[0].Key, s.id)}}
	}
	results, err := s.Session.TryAcquire(ctx, id, wants)
	if s.token != 0 && err == nil && results[0].Token != 0 {
		s.real, results[0].Token = results[0].Token, s.token
	}
	if err == nil && results[0].Token == 0 {
		time.Sleep(s.answers)
	}
	return results, err
}

func (s *wrongSession) Release(ctx context.Context, held []driver.Held) error {
	if s.token != 0 {
		held = []driver.Held{{Key: held[0].Key, Token: s.real}}
	}
	return s.Session.Release(ctx, held)
}

func (s *wrongSession) Queue() driver.Queue { return wrongQueue{s.Session.Queue(), s} }

type wrongQueue struct {
	driver.Queue
	s *wrongSession
}

func (q wrongQueue) Acquire(ctx context.Context, id string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	switch {
	case !q.s.backwards:
	case q.s.late.ask == nil:
		q.s.late.ask = func() { _, _ = q.Queue.Acquire(ctx, id, release, wants) }
		return []driver.Result{{Queued: true}}, nil
	default:
		defer q.s.late.ask()
	}
	return q.Queue.Acquire(ctx, id, release, wants)
}

func (q wrongQueue) Look(ctx context.Context, places []driver.Place) ([]driver.Result, error) {
	results, err := q.Queue.Look(ctx, places)
	if q.s.forgets && err == nil {
		results[0] = driver.Result{Queued: true}
	}
	return results, err
}

// Who ends a proof has disproved nothing.
func TestDoctorEndsAProof(t *testing.T) {
	for name, prove := range map[string]func(tr *trial, ctx context.Context) (string, error){"order": (*trial).order, "loss": (*trial).loss} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := memlock.New()
				tr := &trial{key: "user/doctor/x", caps: drv.Caps()}
				tr.open = func(ctx context.Context) (*trialClient, error) {
					s, err := drv.Open(ctx, driver.Open{Namespace: "n", TTL: proofTTL})
					return &trialClient{Session: s, caps: drv.Caps(), queue: wrongQueue{s.Queue(), &wrongSession{forgets: true}}, stop: func() {}}, err
				}
				defer tr.close(t.Context())
				if err := tr.begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := prove(tr, ctx)
				if _, disproved := errors.AsType[broken](err); disproved || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, want that it was ended", err)
				}
			})
		})
	}
}
