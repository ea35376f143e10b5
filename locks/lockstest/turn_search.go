package lockstest

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/anishathalye/porcupine"
)

// searchTurns searches for an order in which one queue for each key would have given the answers:
//
//  1. one in which tokens grow with each grant. Drivers need not promise that of those who hold a key together, but most keep to it, and
//     then it leaves out most of the orders: through faults of a client that others do not wait for there are too many to try;
//  2. if there is none, or none was found in half of limit, any order, for limit at most.
func searchTurns(ops []porcupine.Operation, limit time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	rising := turnModel
	rising.Init = func() []any { return []any{turnState{rising: true}} }
	if result, info := porcupine.CheckOperationsVerbose(rising.ToModel(), ops, limit/2); result == porcupine.Ok {
		return result, info
	}
	return porcupine.CheckOperationsVerbose(turnModel.ToModel(), ops, limit)
}

// hash is the same for equal states.
func (s turnState) hash() uint64 {
	h := fnv.New64a()
	var number [8]byte
	add := func(n int64) {
		binary.LittleEndian.PutUint64(number[:], uint64(n)) //nolint:gosec // the bits of it
		_, _ = h.Write(number[:])
	}
	add(int64(s.last))
	add(int64(s.floor))
	for _, parts := range [][]turnPart{s.holders, s.queue} {
		add(int64(len(parts)))
		for _, p := range parts {
			add(int64(p.id))
		}
	}
	for _, id := range s.lost {
		add(int64(id))
	}
	return h.Sum64()
}
