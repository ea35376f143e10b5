package ledger

import (
	"cmp"
	"math"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Limits are those of a pool over all replicas. They are exact: a transaction that makes tasks running has the pool's row locked while
// there are any. Where there were none, one that is under way when they are set has read the row without a lock, and goes by none.
type Limits struct {
	MaxRunning int       // attempts at once; 0: no limit
	Rate       jobs.Rate // starts; zero: no limit
	Burst      int       // starts at once after a pause; 0: those of one second
}

// None reports whether nothing is limited.
func (l Limits) None() bool { return l.MaxRunning == 0 && l.Rate == jobs.Rate{} }

// Under returns the limits with what an override sets in their place.
func (l Limits) Under(o wire.PoolLimits) Limits {
	return Limits(wire.LimitFields{MaxRunning: o.MaxRunning, Rate: o.Rate, Burst: o.Burst}.Over(jobs.KeyLimits(l)))
}

// Bucket is the token bucket of a pool with a rate, as one number: the nanosecond since 1970 at which it is full again. This is the
// theoretical arrival time of the generic cell rate algorithm (ITU-T I.371). Its time is the store's, read under the lock of the
// pool's row.
type Bucket int64

// Starts is how many attempts may start now by the rate. Without one it is the largest int.
func (l Limits) Starts(b Bucket, now time.Time) int {
	interval := l.interval()
	if interval == 0 {
		return math.MaxInt
	}
	return int((l.capacity() - l.lacks(b, now)) / interval)
}

// Started is the bucket after n attempts have started now.
func (l Limits) Started(b Bucket, now time.Time, n int) Bucket {
	return Bucket(now.UnixNano() + l.lacks(b, now) + int64(n)*l.interval())
}

// OpensIn is the time from now until one more attempt may start by the rate; 0: it may start now.
func (l Limits) OpensIn(b Bucket, now time.Time) time.Duration { return l.OpensFor(1, b, now) }

// OpensFor is the time from now until n more attempts may have started by the rate, if all start as soon as they may; a hundred years at most.
func (l Limits) OpensFor(n int, b Bucket, now time.Time) time.Duration {
	const most = 100 * 366 * 24 * time.Hour
	interval := l.interval()
	if interval > 0 && int64(n) > int64(most)/interval {
		return most
	}
	return time.Duration(max(0, l.lacks(b, now)+int64(n)*interval-l.capacity()))
}

// Possible is the bucket as it can be now. One that would be full later than an empty one was written under other limits, or by a clock that
// was set back since: it is empty, and has to be written so, or it would be empty until that time.
func (l Limits) Possible(b Bucket, now time.Time) Bucket {
	return min(b, Bucket(now.UnixNano()+l.capacity()))
}

// Converted is the bucket under limits that come in place of these: as many starts lack in it. Else a slower rate would let more start at
// once, and a faster one would take what was left.
func (l Limits) Converted(b Bucket, now time.Time, to Limits) Bucket {
	if l.Rate == to.Rate {
		return to.Possible(b, now)
	}
	lacks := l.lacks(b, now)
	if lacks == 0 { // it is full, or there was no rate
		return min(b, Bucket(now.UnixNano()))
	}
	starts := float64(lacks) / float64(l.interval())
	return Bucket(now.UnixNano() + int64(min(starts*float64(to.interval()), float64(to.capacity()))))
}

// lacks is how long the bucket takes to be full, in nanoseconds.
func (l Limits) lacks(b Bucket, now time.Time) int64 {
	return min(max(0, int64(b)-now.UnixNano()), l.capacity())
}

func (l Limits) interval() int64 { return int64(l.Rate.Interval()) }

// capacity is how long an empty bucket takes to be full, in nanoseconds: a year at most.
func (l Limits) capacity() int64 {
	return int64(min(cmp.Or(l.Burst, l.Rate.OneSecond()), l.Rate.MostBurst())) * l.interval()
}
