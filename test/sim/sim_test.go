package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

var (
	seeds = flag.Int("seeds", many, "how many seeds to simulate")
	from  = flag.Uint64("from", 1, "the first seed")
	one   = flag.Uint64("seed", 0, "simulate this seed alone; 0: -seeds of them")
)

func TestMain(m *testing.M) {
	boottime.Simulated()
	debug.SetGCPercent(400) // many small worlds, none of which lives long
	os.Exit(m.Run())
}

// Whatever strikes, every due time is accounted for, nothing starts that must not, and no task is lost.
func TestSeeds(t *testing.T) {
	if *one != 0 {
		runSeed(t, *one, &tally{})
		return
	}
	var all tally
	t.Run("seed", func(t *testing.T) {
		for i := range *seeds {
			seed := *from + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				runSeed(t, seed, &all)
			})
		}
	})
	t.Log(&all)
	if missing := all.missing(); *seeds >= 1000 && len(missing) > 0 {
		t.Errorf("no seed has shown: %v", missing)
	}
}
