package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Ensemble is three ZooKeepers that are one service for as long as two of them run.
type Ensemble struct {
	Servers []*ZooKeeperServer
	Clock   *Clock // nil: the machine's
	tb      testing.TB
}

// NewEnsemble starts an ensemble for this test. It ends with the test.
func NewEnsemble(t testing.TB) *Ensemble {
	t.Helper()
	return newEnsemble(t, nil)
}

func newEnsemble(t testing.TB, clock *Clock) *Ensemble {
	t.Helper()
	need(t, "ZooKeeper", zooKeeperPrograms...)
	const size = 3
	var peers strings.Builder
	peers.WriteString("initLimit=20\nsyncLimit=10\nstandaloneEnabled=false\n")
	for id := 1; id <= size; id++ {
		var ports [2]int
		for i := range ports {
			port, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			ports[i] = port
		}
		fmt.Fprintf(&peers, "server.%d=127.0.0.1:%d:%d\n", id, ports[0], ports[1])
	}
	e := &Ensemble{Clock: clock, tb: t}
	for id := 1; id <= size; id++ {
		s := zooKeeperInstance(func(s *instance) (string, error) {
			return peers.String(), os.WriteFile(filepath.Join(s.dir, "myid"), []byte(strconv.Itoa(id)), 0o644)
		})
		s.tb, s.clock = t, clock
		t.Cleanup(s.remove)
		e.Servers = append(e.Servers, &ZooKeeperServer{instance: s})
	}
	if err := e.together(func(s *ZooKeeperServer) error {
		err := s.open()
		s.Addr = s.addr()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return e
}

// Addrs are the addresses (host:port) of all, running or not.
func (e *Ensemble) Addrs() (addrs []string) {
	for _, s := range e.Servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Leader waits until one of the servers leads, and returns it.
func (e *Ensemble) Leader() *ZooKeeperServer {
	e.tb.Helper()
	s, err := e.AwaitLeader(context.Background())
	if err != nil {
		e.tb.Fatal(err)
	}
	return s
}

// AwaitLeader is Leader with an error. It waits no longer than ctx, and never longer than Leader.
func (e *Ensemble) AwaitLeader(ctx context.Context) (*ZooKeeperServer, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		for _, s := range e.Servers {
			try, stop := context.WithTimeout(ctx, time.Second)
			answer, _ := ask(try, s.Addr, "srvr")
			stop()
			if strings.Contains(answer, "Mode: leader") {
				return s, nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a leader of ZooKeeper: %w", ctx.Err())
		}
	}
}

// Start starts servers again and returns when they answer: two of three have to run for that.
func (e *Ensemble) Start(stopped ...*ZooKeeperServer) {
	e.tb.Helper()
	if err := e.Restart(context.Background(), stopped...); err != nil {
		e.tb.Fatal(err)
	}
}

// Restart is Start with an error. It waits no longer than ctx, and never longer than Start.
func (e *Ensemble) Restart(ctx context.Context, stopped ...*ZooKeeperServer) error {
	return e.together(func(s *ZooKeeperServer) error { return s.start(ctx) }, stopped...)
}

// together calls f for some servers, or for all, at once: one alone does not answer.
func (e *Ensemble) together(f func(*ZooKeeperServer) error, some ...*ZooKeeperServer) error {
	if len(some) == 0 {
		some = e.Servers
	}
	errs := make([]error, len(some))
	var starting sync.WaitGroup
	for i, s := range some {
		starting.Go(func() { errs[i] = f(s) })
	}
	starting.Wait()
	return errors.Join(errs...)
}
