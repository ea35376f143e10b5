package sqllock

import (
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// write writes what differs from what was read. A turn, which takes one row out and puts one in, changes the row.
func (c *change) write() error {
	var holders, places []*part
	var flagged []*part // holders that must not be released without the mark any more
	for _, name := range slices.Sorted(maps.Keys(c.keys)) {
		k := c.keys[name]
		waits := len(k.queue) > 0 || k.rest
		for _, p := range k.holders {
			if !p.written {
				p.waits = waits
				holders = append(holders, p)
			} else if waits && !p.waits {
				flagged = append(flagged, p)
			}
		}
		for _, p := range k.queue {
			if !p.written {
				places = append(places, p)
			}
		}
	}
	unwritten := func(p *part) bool { return !p.written }
	freed, left := slices.DeleteFunc(c.freed, unwritten), slices.DeleteFunc(c.left, unwritten)
	c.wrote = c.wrote || len(freed)+len(left)+len(holders)+len(places)+len(flagged)+len(c.ended) > 0
	if err := c.replace(leaseTable, freed, holders); err != nil {
		return err
	}
	if err := c.replace(placeTable, left, places); err != nil {
		return err
	}
	n, err := c.t.Exec(`UPDATE {leases} SET waits = 1 WHERE {in name namespace, name name, int token} AND waits = 0`,
		sqlkit.Rows(flagged, func(p *part) []any { return c.primary(leaseTable, p) }))
	if err == nil && n < int64(len(flagged)) {
		err = errReleased
	}
	return err
}

// partTable is what the statements for {leases} and {places} have in common.
type partTable struct {
	remove, insert, change string
	number                 func(p *part) int64
	also                   func(p *part) []any
}

var (
	leaseTable = partTable{
		remove: `DELETE FROM {leases} WHERE {in name namespace, name name, int token}`,
		insert: `INSERT INTO {leases} (since, namespace, name, token, session_id, acquisition, meta, shared, capacity, waits) VALUES `,
		change: `UPDATE {leases} SET since = {now}, namespace = ?, name = ?, token = ?, session_id = ?, acquisition = ?, meta = ?, shared = ?, capacity = ?, waits = ?
			WHERE namespace = ? AND name = ? AND token = ?`,
		number: func(p *part) int64 { return int64(p.info.Token) },
		also:   func(p *part) []any { return []any{p.waits} },
	}
	placeTable = partTable{
		remove: `DELETE FROM {places} WHERE {in name namespace, name name, int number}`,
		insert: `INSERT INTO {places} (since, namespace, name, number, session_id, acquisition, meta, shared, capacity) VALUES `,
		change: `UPDATE {places} SET since = {now}, namespace = ?, name = ?, number = ?, session_id = ?, acquisition = ?, meta = ?, shared = ?, capacity = ?
			WHERE namespace = ? AND name = ? AND number = ?`,
		number: func(p *part) int64 { return p.number },
		also:   func(*part) []any { return nil },
	}
)

// primary is the primary key of a part.
func (c *change) primary(table partTable, p *part) []any {
	return []any{c.namespace, p.info.Key, table.number(p)}
}

// columns are what is written of a part, besides the time.
func (c *change) columns(table partTable, p *part) []any {
	return slices.Concat(c.primary(table, p), []any{p.info.Session, p.acquisition, p.info.Meta, p.info.Shared, p.info.Limit}, table.also(p))
}

// replace deletes rows and inserts others, all by primary key.
func (c *change) replace(table partTable, out, in []*part) error {
	if len(out) == 1 && len(in) == 1 {
		n, err := c.t.Exec(table.change, append(c.columns(table, in[0]), c.primary(table, out[0])...)...)
		if err == nil && n == 0 {
			err = errReleased
		}
		return err
	}
	n, err := c.t.Exec(table.remove, sqlkit.Rows(out, func(p *part) []any { return c.primary(table, p) }))
	if err == nil && n < int64(len(out)) {
		err = errReleased
	}
	if err != nil {
		return err
	}
	for some := range slices.Chunk(in, sqlkit.MaxRows) {
		var args []any
		for _, p := range some {
			args = append(args, c.columns(table, p)...)
		}
		one := `({now}, ` + sqlkit.Marks(len(args)/len(some)) + `)`
		if _, err := c.t.Exec(table.insert+strings.TrimSuffix(strings.Repeat(one+`, `, len(some)), `, `), args...); err != nil {
			return err
		}
	}
	return nil
}
