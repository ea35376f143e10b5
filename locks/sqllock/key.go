package sqllock

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// key has the holders of one key, in the order of their grants, and the first places of the queue behind them. It is what
// one transaction has read, and changes.
//
//	waiting ──▶ held ──▶ (gone): released, evicted, abandoned, or its session has ended
type key struct {
	name    string
	holders []*part
	queue   []*part
	rest    bool // the queue is longer than what was read
	waits   bool // the rows of its holders said that it has places
}

// part is what an acquisition has of a key: a row of {leases}, or one of {places} while info.Token is 0.
type part struct {
	info        driver.Info // Remaining: how long its session has left; 0 if that has ended
	number      int64       // of a place
	acquisition string
	ttl         time.Duration // of its session
	waits       bool          // its row says that the key has places
	written     bool
}

func (p *part) live() bool { return p.info.Remaining > 0 }

// of reports whether it is what an acquisition of a session has.
func (p *part) of(session, acquisition string) bool {
	return p.info.Session == session && p.acquisition == acquisition
}

// find returns what an acquisition of a session has of the key, as far as it was read.
func (k *key) find(session, acquisition string) *part {
	for _, of := range [][]*part{k.holders, k.queue} {
		if i := slices.IndexFunc(of, func(p *part) bool { return p.of(session, acquisition) }); i >= 0 {
			return of[i]
		}
	}
	return nil
}

// admits reports whether w may hold the key together with its holders.
func (k *key) admits(w driver.Info) bool {
	if len(k.holders) == 0 {
		return true
	}
	first := k.holders[0].info
	return first.Shared == w.Shared && most(first) == most(w) && (w.Shared || len(k.holders) < most(w))
}

// most is how many may hold a key that is not shared.
func most(w driver.Info) int { return max(w.Limit, 1) }

// result is the outcome for what an acquisition has of the key.
func (k *key) result(p *part) driver.Result {
	if p.info.Token > 0 {
		return driver.Result{Token: p.info.Token}
	}
	return driver.Result{Queued: true, Holder: k.holder()}
}

// holder is one that has the key.
func (k *key) holder() *driver.Info {
	if len(k.holders) == 0 {
		return &driver.Info{Key: k.name}
	}
	info := k.holders[0].info
	return &info
}

// asks is the want of a session as a part has it.
func asks(w driver.Want) driver.Info {
	return driver.Info{Key: w.Key, Meta: w.Meta, Shared: w.Shared, Limit: w.Limit}
}
