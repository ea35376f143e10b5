package mistakes

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: the value of the key is the time at which the lock ends, by the clock of its holder. Who finds it past, by its
// own clock, takes the lock with GETSET. A client whose clock is a minute ahead takes a lock that is held; and who loses the
// race of two GETSETs has moved the end of the winner's lock.
//
// Here the server's clock decides, and no client sends a time.
func TestGetsetWithClientClocks(t *testing.T) {
	t.Parallel()
	rdb, key := redisClient(t), "naive:"+rand.Text()
	const ttl = 10 * time.Second
	acquire := func(now time.Time) bool {
		end := now.Add(ttl).UnixMilli()
		if rdb.SetNX(t.Context(), key, end, 0).Val() {
			return true
		}
		held, _ := rdb.Get(t.Context(), key).Int64()
		if held > now.UnixMilli() {
			return false
		}
		before, _ := strconv.ParseInt(rdb.GetSet(t.Context(), key, end).Val(), 10, 64)
		return before == held
	}
	now := time.Now()
	if !acquire(now) {
		t.Fatal("the key is not free")
	}
	if acquire(now) {
		t.Fatal("held, and taken by a client with the same clock")
	}
	if !acquire(now.Add(time.Minute)) {
		t.Error("a client whose clock is ahead does not take the lock: this test shows nothing")
	}

	var said saying
	heard := redis.NewClient(&redis.Options{Addr: servers.Redis(t)})
	t.Cleanup(func() { _ = heard.Close() })
	heard.AddHook(&said)
	drv := redislock.NewWith(heard, redislock.Options{NoGracePeriod: true})
	namespace := rand.Text()
	a, b := locker(t, drv, namespace, quiet), locker(t, drv, namespace, quiet)
	lease := get(t, a, "k")
	busy(t, b, "k")
	if err := lease.Check(); err != nil {
		t.Error(err)
	}
	words := said.all()
	if len(words) < 2 {
		t.Fatalf("only %q was sent", words)
	}
	for _, word := range words {
		if near(word) && word != fmt.Sprint(lease.Token()) { // a token is made of the server's clock
			t.Errorf("a client sends a time: %s", word)
		}
	}
}

// near reports whether a word is a time of today, in any usual unit.
func near(word string) bool {
	n, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return false
	}
	for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
		if d := n/unit - float64(time.Now().Unix()); d > -86400 && d < 86400 {
			return true
		}
	}
	return false
}

func TestNear(t *testing.T) {
	now := time.Now()
	for word, want := range map[string]bool{
		strconv.FormatInt(now.Unix(), 10): true, strconv.FormatInt(now.UnixMilli(), 10): true, strconv.FormatInt(now.UnixMicro(), 10): true,
		"30000": false, "k": false, "": false,
	} {
		if near(word) != want {
			t.Errorf("%q: %v", word, !want)
		}
	}
}

// saying hears what a client sends.
type saying struct {
	mu    sync.Mutex
	words []string
}

func (s *saying) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words
}

func (s *saying) hear(cmds ...redis.Cmder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			s.words = append(s.words, fmt.Sprint(arg))
		}
	}
}

func (s *saying) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *saying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { s.hear(cmd); return next(ctx, cmd) }
}

func (s *saying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { s.hear(cmds...); return next(ctx, cmds) }
}
