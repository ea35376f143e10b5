package quorumlock

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

func TestWhatItIsMadeOf(t *testing.T) {
	t.Parallel()
	at := func(addrs ...string) (clients []redis.UniversalClient) {
		for _, addr := range addrs {
			clients = append(clients, client(t, addr, nil))
		}
		return clients
	}
	group := start(t, 3)
	_, port, _ := strings.Cut(group[0].Addr, ":")
	for why, d := range map[string]*Driver{
		"3 to 63":         New(at(group[0].Addr, group[1].Addr), Options{}),
		"named twice":     New(at(group[0].Addr, group[1].Addr, group[0].Addr), Options{}),
		"client 2 is nil": New([]redis.UniversalClient{at(group[0].Addr)[0], nil, at(group[1].Addr)[0]}, Options{}),
		"NodeTimeout":     New(at(group[0].Addr, group[1].Addr, group[2].Addr), Options{NodeTimeout: -1}),
	} {
		if _, err := locks.New(d, locks.Options{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
		if _, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl}); err == nil {
			t.Error("opened")
		}
	}
	d := New(at(group[0].Addr, group[1].Addr, "localhost:"+port), Options{NodeTimeout: 10 * time.Second}) // all three answer in time
	for what, err := range map[string]error{
		"check": d.Check(t.Context()),
		"open":  func() error { _, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl}); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "are the same server") {
			t.Errorf("%s of a server with two names: %v", what, err)
		}
	}
	if err := New(at(group[0].Addr, group[1].Addr, group[2].Addr), Options{}).Check(t.Context()); err != nil {
		t.Error(err)
	}
}
