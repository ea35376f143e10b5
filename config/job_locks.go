package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// lockOfKeys are the keys of a lock that is more than its key.
var lockOfKeys = schema[jobs.Lock]{
	"key":     textField(func(l *jobs.Lock) *string { return &l.Key }),
	"mode":    choiceField([]jobs.LockMode{jobs.LockExclusive, jobs.LockShared}, func(l *jobs.Lock) *jobs.LockMode { return &l.Mode }),
	"limit":   numberField(1, limits.Holders, func(l *jobs.Lock) *int { return &l.Limit }),
	"on_lost": choiceField([]jobs.LockLost{jobs.LockCancels, jobs.LockContinues}, func(l *jobs.Lock) *jobs.LockLost { return &l.OnLost }),
}

// locksField reads a list of locks: each is its key, or a map.
func locksField[T any](place func(*T) *[]jobs.Lock) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		var all []jobs.Lock
		r.items(n, func(item *yaml.Node) {
			var l jobs.Lock
			if deref(item).Kind == yaml.MappingNode {
				object(r, item, lockOfKeys, &l)
			} else {
				l.Key, _ = r.text(item)
			}
			all = append(all, l) // also one that is refused: problems name their place in the list
		})
		*place(into) = all
	}
}
