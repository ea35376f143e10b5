package sqllock

import (
	"cmp"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// load reads keys, without what sessions that have ended hold of them, and the first places of their queues.
func (c *change) load(names []string) error {
	names = sqlkit.Distinct(names)
	if len(names) == 1 {
		return c.loadOne(names[0])
	}
	loaded, err := c.holdersOf(c.t, names)
	if err != nil {
		return err
	}
	if err := c.settleHolders(names, loaded); err != nil {
		return err
	}
	var unsure []string
	for _, name := range names {
		if k := c.keys[name]; k.waits || len(k.holders) == 0 {
			unsure = append(unsure, name)
		}
	}
	has, err := c.queued(c.t, unsure)
	if err != nil {
		return err
	}
	for _, name := range unsure {
		if has[name] {
			if err := c.readQueue(c.t, c.keys[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadOne reads one key and this session by one statement.
func (c *change) loadOne(name string) error {
	all, err := parts(c.t, leaseRows+`namespace = ? AND h.name = ? UNION ALL {first}`+placeRows+`namespace = ? AND h.name = ? ORDER BY h.number LIMIT ?)
		UNION ALL SELECT '', 0, 0, id, '', '', 0, 0, 0, 0, expires_at - {now}, ttl, owner FROM {sessions} WHERE id = ? AND dead = 0`,
		c.namespace, name, c.namespace, name, firstPlaces, c.id)
	if err != nil {
		return err
	}
	k := &key{name: name}
	for _, p := range all {
		switch {
		case p.info.Key == "":
			c.living = p.live()
		case p.info.Token > 0:
			k.holders = append(k.holders, p)
		default:
			k.queue = append(k.queue, p)
		}
	}
	slices.SortFunc(k.holders, func(a, b *part) int { return cmp.Compare(a.info.Token, b.info.Token) })
	slices.SortFunc(k.queue, func(a, b *part) int { return cmp.Compare(a.number, b.number) })
	k.rest = len(k.queue) == firstPlaces
	return c.settleHolders([]string{name}, map[string]*key{name: k})
}

// settleHolders ends the sessions of holders that have expired, and takes those out.
func (c *change) settleHolders(names []string, loaded map[string]*key) error {
	var all []*part
	for _, name := range names {
		all = append(all, loaded[name].holders...)
	}
	if err := c.end(all); err != nil {
		return err
	}
	n, err := c.pullIn(c.t, all)
	if err != nil {
		return err
	}
	c.wrote = c.wrote || n > 0
	for _, name := range names {
		k := loaded[name]
		k.waits = slices.ContainsFunc(k.holders, func(p *part) bool { return p.waits })
		for _, p := range slices.Clone(k.holders) {
			if !p.live() {
				c.drop(k, p)
			}
		}
		c.keys[name] = k
	}
	return nil
}

// end ends the sessions of parts that have expired. One that was renewed meanwhile stays.
func (c *change) end(all []*part) error {
	ids := sessionsOf(all, func(p *part) bool { return !p.live() })
	if len(ids) == 0 {
		return nil
	}
	if _, err := c.t.Exec(`UPDATE {sessions} SET dead = 1 WHERE {in name id} AND expires_at <= {now}`, sqlkit.Keys(ids)); err != nil {
		return err
	}
	list, args := sqlkit.List(ids)
	live, err := names(c.t, `SELECT id FROM {sessions} WHERE dead = 0 AND id IN `+list, args...)
	if err != nil {
		return err
	}
	for _, p := range all {
		if !p.live() && live[p.info.Session] {
			p.info.Remaining = 1
		}
	}
	for _, id := range ids {
		if !live[id] {
			c.ended = append(c.ended, id)
		}
	}
	return nil
}
