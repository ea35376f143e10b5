package redislock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Invalid arguments of a driver are reported by the first call that returns an error, without a server.
func TestWhatItIsMadeOf(t *testing.T) {
	var none *redis.Client
	for _, rdb := range []redis.UniversalClient{nil, none} {
		if _, err := locks.New(New(rdb), locks.Options{}); err == nil || err.Error() != "locks: redislock: New: the client is nil" {
			t.Error(err)
		}
		if _, err := New(rdb).Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Second}); err == nil {
			t.Error("opened")
		}
	}
	if _, err := locks.New((*Driver)(nil), locks.Options{}); err == nil {
		t.Error("a nil driver is taken")
	}
}
