package zklock

import (
	"strconv"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// kind says who may hold a key together.
type kind struct {
	shared bool
	limit  int // of one that is not shared; at least 1
}

func kindOf(w driver.Want) kind {
	if w.Shared {
		return kind{shared: true}
	}
	return kind{limit: max(w.Limit, 1)}
}

// alone reports whether it excludes all others.
func (k kind) alone() bool { return k.limit == 1 }

// String is its name in those of nodes; parseKind is its inverse.
func (k kind) String() string {
	if k.shared {
		return "shared"
	}
	return strconv.Itoa(k.limit)
}

func parseKind(s string) (kind, bool) {
	if s == "shared" {
		return kind{shared: true}, true
	}
	limit, err := strconv.Atoi(s)
	k := kind{limit: limit}
	return k, err == nil && limit > 0 && k.String() == s
}

// joins reports whether one more may hold the key beside these.
func (k kind) joins(holders []member) bool {
	return len(holders) == 0 || holders[0].kind == k && (k.shared || len(holders) < k.limit)
}
