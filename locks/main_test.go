package locks_test

import (
	"os"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

func TestMain(m *testing.M) {
	boottime.Simulated() // in a bubble of synctest its time is all there is
	os.Exit(m.Run())
}
