package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// shownHash is how many characters of the hash of a configuration are shown to people.
const shownHash = 12

// configurationText names a configuration: its number, its hash, and the time of its file, as far as they are known.
func configurationText(number int64, hash string, at time.Time) string {
	words := []string{}
	if hash != "" {
		words = append(words, hash[:min(len(hash), shownHash)])
	}
	if !at.IsZero() {
		words = append(words, "file of "+at.UTC().Format(time.RFC3339))
	}
	if len(words) == 0 {
		return fmt.Sprintf("configuration %d", number)
	}
	return fmt.Sprintf("configuration %d (%s)", number, strings.Join(words, ", "))
}

// configurations are this replica's and, if another replica has a newer one, that and the replica, as of the last look.
func (s *Scheduler) configurations() (own, newer string) {
	c := s.members.Config()
	own = configurationText(c.Number, c.Hash, c.At)
	var newest ledger.Peer
	for _, p := range s.members.Replicas() {
		if p.Replica != s.opt.ID && p.Config > max(newest.Config, c.Number) {
			newest = p
		}
	}
	if newest.Config > 0 {
		newer = configurationText(newest.Config, newest.ConfigHash, newest.ConfigAt) + " of replica " + newest.Replica
	}
	return own, newer
}

// older are the replicas with an older configuration than this one's in which something differs, in words, by their ids.
func (s *Scheduler) older() map[string]string {
	all := map[string]string{}
	number := s.members.Config().Number
	for _, p := range s.members.Replicas() {
		if p.Config < number && p.Differs != "" {
			all[p.Replica] = fmt.Sprintf("%s: %s", configurationText(p.Config, p.ConfigHash, p.ConfigAt), p.Differs)
		}
	}
	return all
}

// sayOlder logs which replicas have an older configuration than this one's, once for each. The caller holds s.configuring.
func (s *Scheduler) sayOlder() {
	var now map[string]string
	if s.governs.Load() {
		now = s.older()
	}
	own, _ := s.configurations()
	for replica, what := range now {
		if s.saidOlder[replica] != what {
			s.log.Warn("another replica has an older configuration; what differs is left to those with this one's; give it the newer file",
				"replica", replica, "older", what, "governs", own)
		}
	}
	s.saidOlder = now
}
