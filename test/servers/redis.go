package servers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// RedisServer is a Redis of one test. It keeps nothing on disk unless its arguments say so: after Kill and
// Start it is empty.
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
	s := redisInstance(Secure{}, nil)
	return s, s.open()
})

// NewRedis starts a Redis for this test, with more arguments of redis-server if wished, for
// example "--appendonly", "yes". It ends with the test.
func NewRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return NewSecureRedis(t, Secure{}, args...)
}

// NewSecureRedis is NewRedis with a password, with TLS, or both. A server with TLS has no other port.
func NewSecureRedis(t testing.TB, secure Secure, args ...string) *RedisServer {
	t.Helper()
	need(t, "Redis", "redis-server")
	s := redisInstance(secure.complete(), args)
	s.tb = t
	t.Cleanup(s.remove)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return &RedisServer{instance: s, Addr: s.addr()}
}

// RestartWith is Restart with more arguments, which later starts do not have.
func (s *RedisServer) RestartWith(ctx context.Context, args ...string) error {
	s.more = args
	defer func() { s.more = nil }()
	return s.Restart(ctx)
}

func redisInstance(secure Secure, args []string) *instance {
	i := &instance{name: "Redis", argv: func(s *instance) ([]string, error) {
		program, _ := find("redis-server")
		argv := []string{
			program, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
		}
		port, clients := strconv.Itoa(s.port), "no"
		if secure.ClientCerts {
			clients = "yes"
		}
		if secure.Authority == nil {
			argv = append(argv, "--port", port)
		} else {
			files, err := secure.install(s)
			if err != nil {
				return nil, err
			}
			argv = append(argv, "--port", "0", "--tls-port", port, "--tls-ca-cert-file", files.ca,
				"--tls-cert-file", files.cert, "--tls-key-file", files.key, "--tls-auth-clients", clients)
		}
		if secure.Password != "" {
			argv = append(argv, "--requirepass", secure.Password)
		}
		return slices.Concat(argv, args, s.more), nil
	}}
	i.ready = func(ctx context.Context, s *instance) error { return redisReady(ctx, s, secure) }
	return i
}

// redisReady asks for the process id too: if another process has the port, this server is about to end.
func redisReady(ctx context.Context, s *instance, secure Secure) error {
	answer, err := secure.ask(ctx, s.addr(), "PING\r\nINFO server\r\n")
	answer = strings.TrimPrefix(answer, "+OK\r\n")
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(answer, "-NOAUTH"): // of an access list among the arguments
		return nil
	case !strings.HasPrefix(answer, "+PONG"):
		return fmt.Errorf("PING: %.80q", answer)
	case !strings.Contains(answer, fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)):
		return errPortTaken
	}
	return nil
}
