package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
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
	rdb      redis.UniversalClient
	prompt   redis.UniversalClient // rdb, as prompt makes it
	pipeline *pipeline
	keys     []string
	mark     *redis.Script
	renew    *redis.Script
	id       string
	owner    string
	ttl      time.Duration

	head     []any // of each command: see words
	standing []any // id, generation, ttl: the first arguments of what acts for the session

	lacks     *lacks        // of the driver
	calls     calls.Group   // the client ends no call when its context does
	suspect   atomic.Bool   // the last call had a connection error
	turn      chan struct{} // held while the session is brought into a new generation
	granted   chan driver.Grant
	topics    chan string   // of notices
	listening chan struct{} // held while the session subscribes
	proving   atomic.Bool   // a call makes a new proof

	mu         sync.Mutex
	over       bool
	gen        string           // "" while it is being settled
	renewed    boottime.Instant // before asking for the last renewal that succeeded
	proof      proof            // of gen
	told       string           // the mark of the last eviction that a renewal told
	superseded bool             // something that it brought back had a later holder; to be told by the next renewal
	book       book
	inbox      *inbox // nil until it waits for a key
}

func newSession(d *Driver, o driver.Open, id string) *session {
	keys, ttl := keysOf(o.Namespace), o.TTL.Truncate(time.Microsecond)
	s := &session{
		rdb: d.rdb, prompt: prompt(d.rdb), lacks: &d.lacks, keys: keys, mark: markOf(o.Namespace), renew: renewOf(o.Namespace),
		id: id, owner: line(o.Owner), ttl: ttl, head: headOf(keys), standing: []any{id, "", ttl.Microseconds()},
		turn: make(chan struct{}, 1), listening: make(chan struct{}, 1), book: newBook(), granted: make(chan driver.Grant, unread),
		topics: make(chan string, unreadTopics),
	}
	s.pipeline = &pipeline{client: s.prompt, calls: &s.calls}
	return s
}

func (s *session) ID() string             { return s.id }
func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Ended() <-chan struct{} { return nil } // Renew reports it

func (s *session) open(ctx context.Context, o Options) error {
	s.suspect.Store(true)
	if err := s.reach(ctx); err != nil {
		return err
	}
	s.suspect.Store(false)
	asked := boottime.Now()
	known, err := calls.Await(ctx, &s.calls, func() (bool, error) {
		found, err := s.mark.Exists(ctx, s.shard(ctx)).Result()
		if err != nil && redisconn.Answered(err) {
			return true, nil // SCRIPT is forbidden: the namespace counts as used
		}
		return len(found) > 0 && found[0], err
	})
	if err != nil {
		return err
	}
	answer, err := s.eval(ctx, openScript, nil, s.words(4, s.id, s.ttl.Microseconds(), !known, o.NoGracePeriod))
	if err == nil {
		err = redisconn.Keeps(answer)
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
	s.lacks.runID.Store(answer[2] == "")
	s.lacks.channels.Store(answer[3] == "")
	s.gen, s.renewed, s.proof = answer[1].(string), asked, proven(answer[4])
	return nil
}

func (s *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	results, err := s.acquire(ctx, acquisition, nil, wants, false)
	if err != nil {
		return nil, s.failed("acquire", err)
	}
	return results, nil
}

// acquire releases keys and asks for others.
func (s *session) acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want, wait bool) ([]driver.Result, error) {
	s.forget(release) // first: whatever becomes of the call, it is not to be brought back
	args := append(make([]any, 0, 5+2*len(release)+3*len(wants)), acquisition, s.owner, wait, "", len(release))
	args = append(args, pairs(release)...)
	for _, w := range wants {
		args = append(args, w.Key, kindOf(w), w.Meta)
	}
	if wait {
		s.mu.Lock()
		for _, w := range wants {
			s.book.ask(driver.Place{Acquisition: acquisition, Key: w.Key}, waiting{kind: kindOf(w), owner: s.owner, meta: w.Meta})
		}
		s.mu.Unlock()
	}
	for {
		gen, answer, err := s.act(ctx, args, func(words []any) ([]any, error) { return s.grant(ctx, words) })
		if err != nil {
			return nil, err
		}
		said := answer[1:]
		if answer[0] == "all" { // under one token
			said = slices.Repeat(said, len(wants))
		}
		results, err := s.results(gen, acquisition, wants, said)
		if !errors.Is(err, errOutdated) {
			return results, err
		}
		// What was granted in a generation that has ended was not reasserted: ask again.
	}
}

func (s *session) Release(ctx context.Context, held []driver.Held) error {
	s.forget(held) // first: whatever becomes of the call, it is not to be brought back
	args := append(append(make([]any, 0, 5+2*len(held)), "", "", false, "", len(held)), pairs(held)...)
	_, _, err := s.act(ctx, args, func(words []any) ([]any, error) { return s.grant(ctx, words) })
	if err != nil && !errors.Is(err, driver.ErrSessionEnded) {
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

func (s *session) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	_, answer, err := s.act(ctx, []any{key, int64(token)}, func(words []any) ([]any, error) {
		return s.call(ctx, func() ([]any, error) { return s.once(ctx, evictText, words) }) // a second one would find it freed, and say that nobody held it
	})
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
	was, gen, in, held := s.over, s.gen, s.inbox, s.book.held()
	s.over, s.inbox = true, nil
	s.mu.Unlock()
	var err error
	if !was {
		_, err = s.eval(ctx, closeScript, nil, append(s.words(3+2*len(held), s.id, gen, s.ttl.Microseconds()), pairs(held)...))
	}
	if in != nil {
		in.close()
	}
	if err := cmp.Or(err, s.calls.Join(ctx)); err != nil {
		return s.failed("close", err)
	}
	return nil
}

// failed names the operation and the server.
func (s *session) failed(op string, err error) error {
	return fmt.Errorf("redislock: %s at %s: %w", op, redisconn.Address(s.rdb), err)
}

func pairs(held []driver.Held) []any {
	args := make([]any, 0, 2*len(held))
	for _, h := range held {
		args = append(args, h.Key, int64(h.Token))
	}
	return args
}
