package servers

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// RedisServer is a Redis that belongs to one test. It keeps nothing on disk unless its arguments
// say so: after Kill and Start it is empty.
type RedisServer struct {
	*instance
	Addr string // host:port
}

// Redis returns the address (host:port) of the Redis that the tests of this binary share.
func Redis(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv("LOCKSTEP_TEST_REDIS"); addr != "" {
		return addr
	}
	need(t, "Redis", "redis-server")
	s, err := sharedRedis()
	if err != nil {
		t.Fatal(err)
	}
	return s.addr()
}

var sharedRedis = sync.OnceValues(func() (*instance, error) {
	s := redisInstance(nil)
	return s, s.open()
})

// NewRedis starts a Redis for this test, with more arguments of redis-server if wished, for
// example "--appendonly", "yes". It ends with the test.
func NewRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	need(t, "Redis", "redis-server")
	s := redisInstance(args)
	s.tb = t
	t.Cleanup(s.remove)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return &RedisServer{instance: s, Addr: s.addr()}
}

func redisInstance(args []string) *instance {
	return &instance{name: "Redis", ready: redisReady, argv: func(s *instance) ([]string, error) {
		program, _ := find("redis-server")
		return append([]string{
			program, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
			"--save", "", "--appendonly", "no", "--daemonize", "no",
		}, args...), nil
	}}
}

// redisReady asks for the process id too: if another process has our port, ours is about to end.
func redisReady(ctx context.Context, s *instance) error {
	answer, err := ask(ctx, s.addr(), "PING\r\nINFO server\r\nQUIT\r\n")
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(answer, "-NOAUTH"):
		return nil
	case !strings.HasPrefix(answer, "+PONG"):
		return fmt.Errorf("PING: %.80q", answer)
	case !strings.Contains(answer, fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)):
		return errPortTaken
	}
	return nil
}
