package servers

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

//go:embed clock_redis.c.txt
var redisClock []byte

// NewRedis is the NewRedis of this package with this clock.
func (c *Clock) NewRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	need(t, "Redis", "redis-server")
	need(t, "a C compiler", "cc")
	library := filepath.Join(filepath.Dir(c.file), "redis.so")
	if err := c.build(library); err != nil {
		t.Fatal(err)
	}
	s := redisInstance(Secure{}.complete(), args)
	s.tb, s.env = t, append(os.Environ(), "LD_PRELOAD="+library, "LOCKSTEP_TEST_CLOCK_FILE="+c.file)
	t.Cleanup(s.remove)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return &RedisServer{instance: s, Addr: s.addr()}
}

var building sync.Mutex

// build compiles what replaces the clock, once for each Clock.
func (c *Clock) build(library string) error {
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(library); err == nil {
		return nil
	}
	source := library + ".c"
	if err := os.WriteFile(source, redisClock, 0o600); err != nil {
		return fmt.Errorf("the clock of Redis: %w", err)
	}
	if said, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		return fmt.Errorf("compile the clock of Redis: %w: %s", err, said)
	}
	return nil
}
