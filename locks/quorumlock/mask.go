package quorumlock

import (
	"math/bits"
)

// mask is a set of servers, by their index.
type mask uint64

func (m mask) has(i int) bool     { return m&(1<<i) != 0 }
func (m mask) with(i int) mask    { return m | 1<<i }
func (m mask) without(i int) mask { return m &^ (1 << i) }
func (m mask) count() int         { return bits.OnesCount64(uint64(m)) }

func all(n int) mask { return 1<<n - 1 }

func (m mask) each(f func(i int)) {
	for ; m != 0; m &= m - 1 {
		f(bits.TrailingZeros64(uint64(m)))
	}
}
