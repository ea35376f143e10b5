package sim

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

var (
	seeds = number(many)
	from  = number(1)
	one   = number(0)
)

func init() {
	flag.Var(&seeds, "seeds", "how many seeds to simulate")
	flag.Var(&from, "from", "the first seed")
	flag.Var(&one, "seed", "simulate this seed alone; without, -seeds of them")
}

// number is a flag that begins at 1, as seeds do.
type number uint64

func (n *number) String() string { return strconv.FormatUint(uint64(*n), 10) }

func (n *number) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 63)
	if err != nil || v == 0 {
		return errors.New("must be a whole number, 1 or more")
	}
	*n = number(v)
	return nil
}

func TestMain(m *testing.M) {
	boottime.Simulated()
	debug.SetGCPercent(400) // many small worlds, none of which lives long
	flag.Usage = func() {}  // what is wrong with a number is one line, not the last but a hundred
	os.Exit(m.Run())
}

// Under all faults, every due time is accounted for, nothing starts that must not, and no task is lost.
func TestSeeds(t *testing.T) {
	began := time.Now()
	var all tally
	defer func() { fmt.Printf("%s%s in %v\n", &all, span(), time.Since(began).Round(time.Millisecond)) }()
	if one != 0 {
		runSeed(t, uint64(one), &all)
		return
	}
	t.Run("seed", func(t *testing.T) {
		for i := range seeds {
			seed := uint64(from + i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				runSeed(t, seed, &all)
			})
		}
	})
	if missing := all.missing(); seeds >= 1000 && len(missing) > 0 {
		t.Errorf("no seed has shown: %v", missing)
	}
}

// span names the seeds.
func span() string {
	if one != 0 {
		return fmt.Sprintf("seed %d", one)
	}
	return fmt.Sprintf("seeds %d to %d", from, from+seeds-1)
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]number{"1": 1, "20000": 20000, "0": 0, "-3": 0, "abc": 0, "": 0, "18446744073709551615": 0} {
		var n number
		if err := n.Set(text); n != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

// The tally has the seeds, the failures, and the count of each fault.
func TestTally(t *testing.T) {
	y := tally{seeds: 3, failed: 1, counted: map[string]int{"starts": 7, "late": 2}, applied: map[string]int{kills: 4, drains: 5}}
	if got, want := y.String(), "faults: drain 5, kill 4\nseen: late 2, starts 7\n3 simulated, 1 failed: "; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
