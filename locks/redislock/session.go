package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// session is one session of a namespace. It acts in one generation of the server's data, which ends when the server is started
// again, has failed over or has lost data.
//
//	open ──▶ settled in a generation ──▶ over: closed, or expired at the server
//	                 │   ▲                ▲
//	   it has ended  ▼   │ reassert       │ expired meanwhile
//	              not settled ────────────┘
type session struct {
	rdb   redis.UniversalClient
	keys  []string
	mark  *redis.Script
	renew *redis.Script
	id    string
	owner string
	ttl   time.Duration

	calls   calls.Group   // the client ends no call when its context does
	suspect atomic.Bool   // the last call had a connection error
	turn    chan struct{} // held while the session is brought into a new generation

	mu      sync.Mutex
	over    bool
	gen     string            // "" while it is being settled
	renewed boottime.Instant  // before asking for the last renewal that succeeded
	book    map[string]record // what is held, to reassert it
}

func newSession(rdb redis.UniversalClient, o driver.Open, id string) *session {
	return &session{
		rdb: rdb, keys: keysOf(o.Namespace), mark: markOf(o.Namespace), renew: renewOf(o.Namespace),
		id: id, owner: line(o.Owner), ttl: o.TTL.Truncate(time.Microsecond),
		turn: make(chan struct{}, 1), book: map[string]record{},
	}
}

func (s *session) ID() string             { return s.id }
func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Ended() <-chan struct{} { return nil } // Renew reports it

func (s *session) open(ctx context.Context, o Options, blind *atomic.Bool) error {
	s.suspect.Store(true)
	if err := s.reach(ctx); err != nil {
		return err
	}
	s.suspect.Store(false)
	asked := boottime.Now()
	known, err := calls.Await(ctx, &s.calls, func() (bool, error) {
		found, err := s.mark.Exists(ctx, s.shard(ctx)).Result()
		if err != nil && answered(err) {
			return true, nil // SCRIPT is forbidden: the namespace counts as used
		}
		return len(found) > 0 && found[0], err
	})
	if err != nil {
		return err
	}
	answer, err := s.eval(ctx, openScript, s.id, s.ttl.Microseconds(), !known, o.NoGracePeriod)
	if err == nil {
		err = keeps(answer)
	}
	if err != nil {
		return err
	}
	if !known { // before any grant: from now on lost data does not look like a new namespace
		if err := calls.Do(ctx, &s.calls, func() error { return s.mark.Load(ctx, s.shard(ctx)).Err() }); err != nil {
			return err
		}
		s.markOthers(ctx)
	}
	blind.Store(answer[2] == "")
	s.gen, s.renewed = answer[1].(string), asked
	return nil
}

// keeps reads the answer of memory.lua.
func keeps(answer []any) error {
	if answer[0] == "evicts" {
		return fmt.Errorf("the server may evict locks: maxmemory-policy is %v; set it to noeviction or to one of volatile-*, which spare keys without a TTL (or maxmemory to 0)", answer[1])
	}
	return nil
}

func (s *session) Renew(ctx context.Context) error {
	asked := boottime.Now()
	if _, _, err := s.run(ctx, s.renew); err != nil {
		return s.failed("renew", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = asked
	return nil
}

func (s *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	args := []any{acquisition, s.owner}
	for _, w := range wants {
		args = append(args, w.Key, w.Meta)
	}
	for {
		gen, answer, err := s.run(ctx, acquireScript, args...)
		if err != nil {
			return nil, s.failed("acquire", err)
		}
		results, err := s.results(wants, answer)
		if err != nil {
			return nil, s.failed("acquire", err)
		}
		// A grant of a generation that has ended was not reasserted: ask again.
		if s.enter(gen, acquisition, wants, results) {
			return results, nil
		}
	}
}

// results reads the answer of acquire.lua.
func (s *session) results(wants []driver.Want, answer []any) ([]driver.Result, error) {
	results := make([]driver.Result, len(wants))
	granted := false
	var recovering error
	for i, w := range wants {
		said, _ := answer[i+1].(string)
		switch {
		case strings.HasPrefix(said, "+"):
			token, err := strconv.ParseInt(said[1:], 10, 64)
			if err != nil {
				return nil, err
			}
			results[i].Token, granted = driver.Token(token), true
		case strings.HasPrefix(said, "-"):
			r, err := parse(said[1:])
			if err != nil {
				return nil, err
			}
			info := r.info(w.Key)
			results[i].Holder = &info
		default:
			recovering = waitFor(strings.TrimPrefix(said, "?"))
			results[i].Err = recovering
		}
	}
	if recovering != nil && !granted {
		return nil, recovering
	}
	return results, nil
}

// waitFor reads what grace() of namespace.lua says: how long nothing is granted, and why.
func waitFor(grace string) error {
	micros, up, _ := strings.Cut(grace, " ")
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return err
	}
	why := "the server was started again, has failed over or has lost data a short time ago"
	if up != "" {
		why = "the server is new, or was started again, " + up + " s ago"
	}
	wait := time.Duration(n) * time.Microsecond
	return fmt.Errorf("%w: %s, and may not know of all locks; they are granted from %s on, in %v",
		driver.ErrRecovering, why, time.Now().Add(wait).Format(time.TimeOnly), wait.Round(time.Millisecond))
}

// Queue implements driver.Session: this backend has no queue yet.
func (s *session) Queue() driver.Queue { return nil }

func (s *session) Release(ctx context.Context, held []driver.Held) error {
	s.forget(held) // first: whatever becomes of the call, it is not to be brought back
	if _, _, err := s.run(ctx, releaseScript, pairs(held)...); err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		return s.failed("release", err)
	}
	return nil
}

func (s *session) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	_, answer, err := s.run(ctx, checkScript, pairs(held)...)
	if err != nil {
		return nil, s.failed("check", err)
	}
	still := make([]bool, len(held))
	for i := range held {
		still[i] = answer[i+1] == int64(1)
		if !still[i] {
			s.forget(held[i : i+1])
		}
	}
	return still, nil
}

func (s *session) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	low := "[" + prefix
	if after != "" && after >= prefix {
		low = "(" + after
	}
	answer, err := s.eval(ctx, listScript, low, "("+prefix+"\xff", limit)
	if err != nil {
		return nil, s.failed("list", err)
	}
	var infos []driver.Info
	for i := 1; i+1 < len(answer); i += 2 {
		r, err := parse(answer[i+1].(string))
		if err != nil {
			return nil, s.failed("list", err)
		}
		infos = append(infos, r.info(answer[i].(string)))
	}
	return infos, nil
}

func (s *session) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	_, answer, err := s.run(ctx, evictScript, key, int64(token))
	if err != nil {
		return false, s.failed("evict", err)
	}
	if answer[0] == "recovering" {
		return false, s.failed("evict", waitFor(answer[1].(string)))
	}
	s.forget([]driver.Held{{Key: key, Token: token}})
	return answer[1] == int64(1), nil
}

func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	was := s.over
	s.over = true
	s.mu.Unlock()
	var err error
	if !was {
		_, err = s.eval(ctx, closeScript, s.id)
	}
	if err := cmp.Or(err, s.calls.Join(ctx)); err != nil {
		return s.failed("close", err)
	}
	return nil
}

// failed names the operation and the server.
func (s *session) failed(op string, err error) error {
	return fmt.Errorf("redislock: %s at %s: %w", op, address(s.rdb), err)
}

func pairs(held []driver.Held) []any {
	args := make([]any, 0, 2*len(held))
	for _, h := range held {
		args = append(args, h.Key, int64(h.Token))
	}
	return args
}
