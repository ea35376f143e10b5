package memlock_test

import (
	"flag"
	"os"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they work
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		service := memlock.New()
		return lockstest.Harness{
			Driver:        func(*testing.T) driver.Driver { return service },
			ExpireSession: func(_ *testing.T, s driver.Session) { service.Expire(s.ID()) },
			RestartEmpty:  func(*testing.T) { service.Restart() },
		}
	})
}
