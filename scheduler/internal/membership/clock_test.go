package membership

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

func TestClockFollowsTheSmallerOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(2 * time.Second)
		database := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		c.Observe(boottime.Now(), database)
		time.Sleep(time.Second)
		for offset, want := range map[time.Duration]time.Duration{
			0: 0, -1500 * time.Millisecond: -1500 * time.Millisecond, 1500 * time.Millisecond: 0,
		} {
			real := database.Add(time.Second)
			got, err := c.Check(real.Add(offset))
			if err != nil || !got.Equal(real.Add(want)) {
				t.Errorf("database %v off: decided by %v off, %v; want %v", offset, got.Sub(real), err, want)
			}
		}
	})
}

// Timers follow the time that decisions are made by: it is behind the own clock by as much as the database's.
func TestTimersFollowTheLastDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(2 * time.Second)
		database := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		c.Observe(boottime.Now(), database)
		for _, off := range []time.Duration{-500 * time.Millisecond, 100 * time.Millisecond, -time.Second, 0} {
			want, err := c.Check(database.Add(off))
			if err != nil || !within(c.Now().Sub(want), 20*time.Millisecond) || !within(want.Sub(database.Add(min(off, 0))), 20*time.Millisecond) {
				t.Errorf("database %v off: decided by %v, timers by %v, %v", off, want.Sub(database), c.Now().Sub(database), err)
			}
		}
	})
}

// A database time maps to one moment of the boot clock, however long ago the database was last asked.
func TestInstantsStayWhereTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(2 * time.Second)
		database := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		c.Observe(boottime.Now(), database)
		end := database.Add(time.Minute)
		for range 3 {
			left := end.Sub(c.Now())
			if got := c.Instant(end).Until(); !within(got-left, 20*time.Millisecond) {
				t.Errorf("%v after the last beat: %v left, want %v", c.Now().Sub(database), got, left)
			}
			time.Sleep(7 * time.Second)
		}
	})
}

func TestClockBelievesAStepAfterThreeBeats(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := NewClock(2 * time.Second)
			database := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			began := time.Now()
			at := func() time.Time { return database.Add(time.Since(began) + step) }
			c.Observe(boottime.Now(), database)
			for beat := range consistentRenewals {
				time.Sleep(3 * time.Second)
				if _, err := c.Check(at()); !errors.Is(err, ledger.ErrClock) {
					t.Fatalf("beat %d: decided by a clock that moved by %v: %v", beat, step, err)
				}
				c.Observe(boottime.Now(), at())
				if red := c.skew() != 0; red != (beat < consistentRenewals-1) {
					t.Fatalf("beat %d: skew %v", beat, c.skew())
				}
			}
			time.Sleep(time.Second)
			if got, err := c.Check(at()); err != nil || !got.Equal(at()) {
				t.Errorf("after three beats: %v, %v", got, err)
			}
		})
	}
}

// A clock that jumps about is never believed.
func TestClockDoesNotBelieveAJumpingClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(2 * time.Second)
		database := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		began := time.Now()
		c.Observe(boottime.Now(), database)
		for beat := range 10 {
			time.Sleep(3 * time.Second)
			c.Observe(boottime.Now(), database.Add(time.Since(began)+time.Duration(beat%2+1)*time.Hour))
			if c.skew() == 0 {
				t.Fatal("believed a clock that was never the same twice")
			}
		}
	})
}

// Two databases behind one address, one of them an hour ahead: a step is believed after three heartbeats in a row, and
// each heartbeat of the other one starts the count again.
func TestClockDoesNotBelieveEverySecondBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(2 * time.Second)
		database := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		began := time.Now()
		at := func(step time.Duration) time.Time { return database.Add(time.Since(began) + step) }
		c.Observe(boottime.Now(), at(0))
		for beat := range 4 * consistentRenewals {
			time.Sleep(3 * time.Second)
			c.Observe(boottime.Now(), at(time.Hour))
			if c.skew() == 0 {
				t.Fatalf("beat %d: a clock an hour ahead is believed", beat)
			}
			time.Sleep(3 * time.Second)
			c.Observe(boottime.Now(), at(0))
			if c.skew() != 0 {
				t.Fatalf("beat %d: skew %v after a beat that agrees", beat, c.skew())
			}
			if got, err := c.Check(at(0)); err != nil || !got.Equal(at(0)) {
				t.Fatalf("beat %d: %v, %v", beat, got, err)
			}
			if _, err := c.Check(at(time.Hour)); !errors.Is(err, ledger.ErrClock) {
				t.Fatalf("beat %d: decided by a clock an hour ahead: %v", beat, err)
			}
		}
	})
}

// Also where each heartbeat takes so long that its reading is inexact, a step is noticed, and believed after three.
func TestClockBelievesAStepAfterThreeSlowBeats(t *testing.T) {
	for _, step := range []time.Duration{5 * time.Second, -5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := NewClock(2 * time.Second)
			database := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			began := time.Now()
			beat := func(step time.Duration) {
				asked := boottime.Now()
				time.Sleep(500 * time.Millisecond)
				now := database.Add(time.Since(began) + step)
				time.Sleep(500 * time.Millisecond)
				c.Observe(asked, now)
			}
			beat(0)
			beat(0)
			if off := c.skew(); off != 0 {
				t.Fatalf("without a step: skew %v", off)
			}
			for n := range consistentRenewals {
				beat(step)
				if red := c.skew() != 0; red != (n < consistentRenewals-1) {
					t.Fatalf("beat %d: skew %v", n, c.skew())
				}
			}
			real := database.Add(time.Since(began) + step)
			if got, err := c.Check(real); err != nil || got.After(real) {
				t.Errorf("after three beats: %v off, %v", got.Sub(real), err)
			}
		})
	}
}

// A reading is believed up to the allowed skew plus the time that the last reading took; beyond that it is
// not, and nothing is decided by it. A reading that took long changes nothing while it may be right.
func TestHowFarAReadingMayBeOff(t *testing.T) {
	const skew = 2 * time.Second
	for what, c := range map[string]struct {
		baseTrip, trip time.Duration
		off            time.Duration // of the reading
		moved          time.Duration // the believed time moves by so much
		refused        int
	}{
		"as far ahead as is allowed":           {0, 0, skew, skew, 0},
		"further ahead":                        {0, 0, skew + 1, 0, 1},
		"as far behind as is allowed":          {0, 0, -skew, -skew, 0},
		"further behind":                       {0, 0, -skew - 1, 0, 1},
		"the last one took a while":            {time.Second, 0, skew + time.Second, skew + time.Second, 0},
		"the last one took a while, further":   {time.Second, 0, skew + time.Second + 1, 0, 1},
		"as long as is exact":                  {0, skew / 4, time.Second, time.Second, 0},
		"longer than is exact":                 {0, skew/4 + 1, time.Second, 0, 0},
		"vague, and as far ahead as may be":    {0, 3 * time.Second, skew, 0, 0},
		"vague, and too far ahead":             {0, 3 * time.Second, skew + 1, 0, 1},
		"vague, and as far behind as may be":   {0, 3 * time.Second, -skew - 3*time.Second, 0, 0},
		"vague, and too far behind":            {0, 3 * time.Second, -skew - 3*time.Second - 1, 0, 1},
		"as vague, and behind by its own trip": {0, 3 * time.Second, -3 * time.Second, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk, real := NewClock(skew), func() time.Time { return time.Now().UTC() }
				asked := boottime.Awake()
				at := real()
				time.Sleep(c.baseTrip)
				clk.Observe(asked, at)
				asked = boottime.Awake()
				time.Sleep(c.trip)
				clk.Observe(asked, real().Add(c.off))
				moved := clk.Now().Sub(real())
				if c.moved != 0 {
					moved -= c.trip // it is counted from before it was asked for
				}
				if _, refused := clk.apart(); moved != c.moved || refused != c.refused || (clk.skew() != 0) != (refused > 0) {
					t.Errorf("moved by %v, want %v; %d refused, want %d; skew %v", moved, c.moved, refused, c.refused, clk.skew())
				}
				base := clk.base.trip
				for off, ok := range map[time.Duration]bool{skew + base: true, skew + base + 1: false, -skew - base: true, -skew - base - 1: false} {
					now := clk.base.now()
					if _, err := clk.Check(now.Add(off)); err == nil != ok || err != nil && !errors.Is(err, ledger.ErrClock) {
						t.Errorf("decides by a clock that is %v off: %v", off, err)
					}
				}
			})
		})
	}
}

// The difference between the clocks is measured also where it is allowed, and steps are counted:
// three heartbeats later it is zero again.
func TestClocksAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(2 * time.Second)
		for beat, want := range []struct {
			ahead   time.Duration // the database, of this machine
			refused int
		}{{time.Minute, 0}, {time.Minute + time.Second, 0}, {-time.Hour, 1}, {-time.Hour, 2}, {-time.Hour, 3}, {-time.Hour, 3}} {
			time.Sleep(3 * time.Second)
			c.Observe(boottime.Now(), time.Now().Add(want.ahead))
			if wall, refused := c.apart(); wall.Round(time.Second) != want.ahead || refused != want.refused {
				t.Errorf("beat %d: apart by %v, %d refused", beat, wall, refused)
			}
		}
	})
}
