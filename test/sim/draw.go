package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// draw is the source of all choices of a seed.
type draw struct{ *rand.Rand }

func newDraw(seed uint64, what string) draw {
	h := fnv.New64a()
	h.Write([]byte(what))
	return draw{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// keyed draws what belongs to one thing, whenever it is asked for.
func keyed(seed uint64, key string, n int) draw { return newDraw(seed, key+"#"+strconv.Itoa(n)) }

func (d draw) chance(p float64) bool { return d.Float64() < p }

// between is at least from, and less than to.
func (d draw) between(from, to time.Duration) time.Duration {
	return from + time.Duration(d.Int64N(int64(to-from)))
}

func pick[T any](d draw, of ...T) T { return of[d.IntN(len(of))] }
