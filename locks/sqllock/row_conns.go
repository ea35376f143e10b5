package sqllock

import (
	"context"
	"time"
)

// spare is a connection of a session that holds nothing now.
type spare struct {
	pinned
	used time.Time
}

// lend returns a connection for one key: the spare one that was used last, or a new one.
func (s *rowSession) lend(ctx context.Context) (p pinned, used bool, err error) {
	s.mu.Lock()
	if last := len(s.spare) - 1; last >= 0 {
		p, s.spare = s.spare[last].pinned, s.spare[:last]
		s.mu.Unlock()
		return p, true, nil
	}
	s.mu.Unlock()
	p, err = s.pin(ctx, s.ttl)
	return p, false, err
}

// giveBack keeps a connection whose transaction has ended, while the handle has as many left for others.
func (s *rowSession) giveBack(p pinned) {
	limit := s.Pool.Stats()
	room := limit.MaxOpenConnections == 0 || 2*limit.InUse <= limit.MaxOpenConnections
	s.mu.Lock()
	if keep := room && !s.over; keep {
		s.spare = append(s.spare, spare{p, time.Now()})
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	p.drop()
}

// shrink closes the spare connections that were not used since the renewal before this one. Those that stay were used within the
// ttl, so the server has not ended them.
func (s *rowSession) shrink() {
	s.mu.Lock()
	n := 0 // they are in the order of their last use
	for n < len(s.spare) && s.spare[n].used.Before(s.renewed) {
		n++
	}
	old := s.spare[:n:n]
	s.spare, s.renewed = s.spare[n:], time.Now()
	s.mu.Unlock()
	for _, p := range old {
		p.drop()
	}
}
