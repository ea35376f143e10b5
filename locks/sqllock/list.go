package sqllock

import (
	"context"
	"math"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// List reads who holds keys, by primary key, until there are enough keys, and then who waits for them.
func (s *leaseSession) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	err = s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		infos = nil
		keys, err := s.page(t, prefix, after, limit)
		if err != nil {
			return err
		}
		var queued []string
		at := map[string]*key{}
		for _, k := range keys {
			if k.waits {
				queued = append(queued, k.name)
			}
			at[k.name] = k
		}
		waits, err := parts(t, placeRows+`namespace = ? AND {in name h.name} ORDER BY h.name, h.number`, sqlkit.Keys(queued), s.namespace)
		if err != nil {
			return err
		}
		for _, p := range waits {
			at[p.info.Key].queue = append(at[p.info.Key].queue, p)
		}
		for _, k := range keys {
			for _, p := range k.holders {
				infos = append(infos, p.info)
			}
			place := 0
			for _, p := range k.queue {
				if p.live() {
					place++
					p.info.Place = place
					infos = append(infos, p.info)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.failed("list", err)
	}
	return infos, nil
}

// page returns the first keys that live sessions hold, with their holders. It reads as many rows at once as there may be keys, from the
// key that the rows before ended with.
func (s *leaseSession) page(t *sqlkit.Tx, prefix, after string, limit int) (keys []*key, err error) {
	where, end := ``, beyond(prefix)
	if end != "" {
		where = ` AND h.name < ?`
	}
	var last *part
	for full := true; full; {
		first, token := max(prefix, after), driver.Token(math.MaxInt64)
		if prefix > after {
			token = 0 // the prefix may be a key
		}
		if last != nil {
			first, token = last.info.Key, last.info.Token
		}
		args := []any{s.namespace, first, first, int64(token)}
		if end != "" {
			args = append(args, end)
		}
		rows, err := parts(t, leaseRows+`namespace = ? AND h.name >= ? AND (h.name > ? OR h.token > ?)`+where+` ORDER BY h.name, h.token LIMIT ?`,
			append(args, limit+1)...)
		if err != nil {
			return nil, err
		}
		full = len(rows) > limit
		for _, p := range rows {
			last = p
			if !p.live() {
				continue
			}
			n := len(keys)
			if n == 0 || keys[n-1].name != p.info.Key {
				if n == limit {
					return keys, nil
				}
				keys = append(keys, &key{name: p.info.Key})
				n++
			}
			k := keys[n-1]
			k.holders, k.waits = append(k.holders, p), k.waits || p.waits
		}
	}
	return keys, nil
}

// beyond is the first string after all that start with prefix; "" if there is none.
func beyond(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}
