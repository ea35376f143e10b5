package sqllock

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// These begin the statements that read {leases} and {places}. A session that has ended, or is gone, has no time left.
const (
	ofSession = `COALESCE(CASE WHEN s.dead = 0 THEN s.expires_at - {now} END, 0) AS remaining, COALESCE(s.ttl, 0) AS ttl, COALESCE(s.owner, '') AS owner`
	leaseRows = `SELECT h.name, h.token, 0 AS number, h.session_id, h.acquisition, h.meta, h.since, h.shared, h.capacity, h.waits, ` + ofSession + `
		FROM {leases} h{by_key} LEFT JOIN {sessions} s ON s.id = h.session_id WHERE h.`
	placeRows = `SELECT h.name, 0 AS token, h.number, h.session_id, h.acquisition, h.meta, h.since, h.shared, h.capacity, 0 AS waits, ` + ofSession + `
		FROM {places} h{by_key} LEFT JOIN {sessions} s ON s.id = h.session_id WHERE h.`
)

// parts reads rows of {leases} or {places}.
func parts(t *sqlkit.Tx, statement string, args ...any) (all []*part, err error) {
	err = t.Query(statement, args, func(scan func(...any) error) error {
		p := &part{written: true}
		var since, left, ttl int64
		err := scan(&p.info.Key, &p.info.Token, &p.number, &p.info.Session, &p.acquisition, &p.info.Meta, &since, &p.info.Shared, &p.info.Limit,
			&p.waits, &left, &ttl, &p.info.Owner)
		p.info.Since, p.ttl = time.UnixMicro(since).UTC(), time.Duration(ttl)*time.Microsecond
		p.info.Remaining = max(time.Duration(left)*time.Microsecond, 0)
		all = append(all, p)
		return err
	})
	return all, err
}

// holdersOf reads who holds keys.
func (s *leaseSession) holdersOf(t *sqlkit.Tx, names []string) (map[string]*key, error) {
	keys := map[string]*key{}
	for _, name := range names {
		keys[name] = &key{name: name}
	}
	all, err := parts(t, leaseRows+`namespace = ? AND {in name h.name} ORDER BY h.name, h.token`, sqlkit.Keys(names), s.namespace)
	for _, p := range all {
		keys[p.info.Key].holders = append(keys[p.info.Key].holders, p)
	}
	return keys, err
}

// own reads the places that this session has in the queues of keys.
func (s *leaseSession) own(t *sqlkit.Tx, names []string) ([]*part, error) {
	return parts(t, placeRows+`namespace = ? AND {in name h.name} AND h.session_id = ?`, sqlkit.Keys(names), s.namespace, s.id)
}

// blocked reports whether the first place of one of the keys is of a session that has ended, or has more than its ttl left.
func (s *leaseSession) blocked(t *sqlkit.Tx, names []string) (bool, error) {
	if len(names) == 0 {
		return false, nil
	}
	list, args := sqlkit.List(names)
	var name string
	return t.One(`SELECT f.name FROM (SELECT name, MIN(number) AS number FROM {places}{by_key} WHERE namespace = ? AND name IN `+list+` GROUP BY name) f
		JOIN {places} p ON p.namespace = ? AND p.name = f.name AND p.number = f.number
		WHERE NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.id = p.session_id AND s.dead = 0 AND s.expires_at > {now} AND s.expires_at <= {now} + s.ttl)`,
		append(append([]any{s.namespace}, args...), s.namespace), &name)
}

// firstPlaces is how many places of a queue are read at once.
const firstPlaces = 16

// readQueue reads on in the queue of a key.
func (s *leaseSession) readQueue(t *sqlkit.Tx, k *key) error {
	last := int64(0)
	if n := len(k.queue); n > 0 {
		last = k.queue[n-1].number
	}
	next, err := parts(t, placeRows+`namespace = ? AND h.name = ? AND h.number > ? ORDER BY h.number LIMIT ?`, s.namespace, k.name, last, firstPlaces)
	k.queue, k.rest = append(k.queue, next...), len(next) == firstPlaces
	return err
}

// queued tells which of the keys have a queue.
func (s *leaseSession) queued(t *sqlkit.Tx, names []string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(names) == 0 {
		return found, nil
	}
	err := t.Query(`SELECT DISTINCT name FROM {places}{by_key} WHERE namespace = ? AND {in name name}`, []any{sqlkit.Keys(names), s.namespace},
		func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			found[name] = true
			return err
		})
	return found, err
}

func sessionsOf(all []*part, is func(*part) bool) []string {
	var ids []string
	for _, p := range all {
		if is(p) {
			ids = append(ids, p.info.Session)
		}
	}
	return sqlkit.Distinct(slices.Clone(ids))
}
