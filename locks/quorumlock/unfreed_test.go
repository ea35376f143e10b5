package quorumlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// openFor opens a session that does not expire during a test.
func openFor(t *testing.T, d driver.Driver) *session {
	t.Helper()
	s, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute, Owner: "owner"})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

// takeMany gets so many keys at once; their names begin with a prefix.
func takeMany(t *testing.T, s *session, prefix string, count int) []driver.Held {
	t.Helper()
	wants := make([]driver.Want, count)
	for i := range wants {
		wants[i].Key = fmt.Sprintf("%s-%06d", prefix, i)
	}
	results, err := s.TryAcquire(t.Context(), rand.Text(), wants)
	if err != nil {
		t.Fatal(err)
	}
	held := make([]driver.Held, count)
	for i, r := range results {
		if r.Token == 0 {
			t.Fatalf("%s: %+v, want it granted", wants[i].Key, r)
		}
		held[i] = driver.Held{Key: wants[i].Key, Token: r.Token}
	}
	return held
}

func unfreed(s *session, i int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members[i].unfreed)
}

// What is to be freed on a server that is away does not grow without bound. What is forgotten of it does not stay there, though
// the session lives there all the time: no other session is held up.
func TestUnfreedIsBounded(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	a := wire(t, group, quick)
	s := openFor(t, a)
	kept, held := take(t, s, "kept"), take(t, s, "a")
	await.Until(t, "all servers have both keys", func() bool { return on(t, group[2], "kept")+on(t, group[2], "a") == 2 })
	before := s.members[2]
	a.reaches(0, 1)
	free(t, s, held)
	for released := 0; released <= mostUnfreed; released += 500 {
		if err := s.Release(t.Context(), takeMany(t, s, "b", 500)); err != nil {
			t.Fatal(err)
		}
		if n := unfreed(s, 2); n > mostUnfreed {
			t.Fatalf("%d ballots are to be freed, want %d at most", n, mostUnfreed)
		}
	}
	if n := on(t, group[2], "a"); n != 1 {
		t.Fatalf("the server that was away has %d holdings of a, want the one that was released meanwhile", n)
	}

	a.reaches(0, 2) // the session is renewed there though that server is needed for a majority
	await.Until(t, "the session is renewed by the server that was away", func() bool { return lockstest.Renew(t.Context(), s) == nil })
	if released, holds := on(t, group[2], "a"), on(t, group[2], "kept"); released != 0 || holds != 1 {
		t.Errorf("the server has %d holdings of what was released and %d of what is held, want 0 and 1", released, holds)
	}
	lockstest.Holds(t, s, kept, true)
	// A request for a ballot that was not freed may have been under way all the time.
	late, err := s.eval(t.Context(), 2, voteScript, s.id, before.gen, before.number, s.ttl.Microseconds(), s.owner, "a", exclusiveKind, 1, "", "")
	if err != nil || late[0] != "lost" {
		t.Errorf("a late vote: %v, %v; want it refused", late, err)
	}
	take(t, openFor(t, wire(t, group, quick)), "a")
}

// What is to be freed is sent in calls of bounded size. What was not sent, since one of them failed, stays to be freed.
func TestFreedInChunks(t *testing.T) {
	t.Parallel()
	group := start(t, 3)
	a := wire(t, group, quick)
	s := openFor(t, a)
	const count = 2*mostFreed + 200
	takeMany(t, s, "b", count)
	await.Until(t, "the first server has all keys", func() bool { return holdings(t, group[0].Addr) == count })
	s.mu.Lock()
	for _, h := range s.book.granted {
		s.members[0].unfreed = append(s.members[0].unfreed, h.ballot)
	}
	s.mu.Unlock()
	var sizes []int
	a.nodes[0].rdb.AddHook(before{freeScript, func(args []any) error {
		sizes = append(sizes, (len(args)-2)/4)
		if len(sizes) == 2 {
			return errors.New("the connection broke")
		}
		return nil
	}})
	if err := s.flush(t.Context(), 0); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("the second call fails: %v, want ErrUnreachable", err)
	}
	if left, on := unfreed(s, 0), holdings(t, group[0].Addr); left != count-mostFreed || on != left {
		t.Errorf("%d are to be freed, the server has %d, want %d", left, on, count-mostFreed)
	}
	if err := s.flush(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if left, on := unfreed(s, 0), holdings(t, group[0].Addr); left != 0 || on != 0 {
		t.Errorf("%d are to be freed, the server has %d, want none", left, on)
	}
	if want := []int{mostFreed, mostFreed, mostFreed, 200}; !slices.Equal(sizes, want) {
		t.Errorf("calls of %v ballots, want %v", sizes, want)
	}
}

// An installation that is under way when too much is to be freed does not count: it may have brought what is forgotten.
func TestUnfreedDuringAnInstallation(t *testing.T) {
	t.Parallel()
	a := wire(t, start(t, 3), quick)
	s := openFor(t, a)
	s.mu.Lock()
	s.members[2].state = forgotten
	s.mu.Unlock()
	var once sync.Once
	a.nodes[2].rdb.AddHook(before{joinScript, func([]any) error {
		once.Do(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.members[2].freeLater(make([]ballot, mostUnfreed+1)...)
		})
		return nil
	}})
	installed := func() bool {
		renew(t, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.members[2].state == settled
	}
	if installed() {
		t.Error("the session counts as installed")
	}
	await.Until(t, "the next renewal installs it", installed)
}

// holdings is how many holdings and votes a server has.
func holdings(t *testing.T, addr string) int {
	t.Helper()
	n, err := client(t, addr, nil).HLen(t.Context(), keysOf("n")[3]).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// before is called with the arguments of a script before it is sent, and may have the call fail.
type before struct {
	script *redis.Script
	do     func(args []any) error
}

func (h before) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" && args[1] == h.script.Hash() {
			if err := h.do(args[3+len(keysOf("n")):]); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// What another call is freeing on a server is there until that has its answer: a call that votes there meanwhile waits for it.
func TestACallWaitsForWhatAnotherFrees(t *testing.T) {
	t.Parallel()
	a := wire(t, start(t, 3), quick)
	s := openFor(t, a)
	take(t, s, "a")
	s.mu.Lock()
	for _, h := range s.book.granted {
		s.members[0].unfreed = append(s.members[0].unfreed, h.ballot)
	}
	s.mu.Unlock()
	freeing, goOn := make(chan struct{}), make(chan struct{})
	a.nodes[0].rdb.AddHook(before{freeScript, func([]any) error {
		close(freeing)
		<-goOn
		return nil
	}})
	first := make(chan error, 1)
	go func() { first <- s.flush(t.Context(), 0) }()
	<-freeing
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.flush(short, 0); !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want to wait for the other one, and to send nothing when the time is over", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := s.flush(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// A commit that arrives after a later one for the same ballot leaves that one's token.
func TestALateCommit(t *testing.T) {
	t.Parallel()
	s := openFor(t, wire(t, start(t, 3), quick))
	held := take(t, s, "a")
	s.mu.Lock()
	m := s.members[0]
	var b ballot
	for _, h := range s.book.granted {
		b = h.ballot
	}
	s.mu.Unlock()
	commit := func(token driver.Token) {
		t.Helper()
		answer, err := s.eval(t.Context(), 0, commitScript, s.id, m.gen, m.number, s.ttl.Microseconds(), int64(token), "a", exclusiveKind, b.number)
		if err != nil || answer[0] != "ok" || answer[1] != "1" {
			t.Fatal(answer, err)
		}
	}
	commit(held.Token + 10)
	commit(held.Token + 5)
	value, err := s.nodes[0].rdb.HVals(t.Context(), s.keys[3]).Result()
	if want := fmt.Sprint(held.Token + 10); err != nil || len(value) != 1 || !strings.HasPrefix(value[0], want+"\n") {
		t.Errorf("%q, %v; want the token %s", value, err, want)
	}
}
