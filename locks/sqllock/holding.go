package sqllock

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// holding is a row of a held key.
type holding struct {
	info        driver.Info
	acquisition string
	left        time.Duration // see left
}

// live: a row that is not live holds nothing.
func (h holding) live() bool { return h.left > 0 }

// left is, for a row of a table, for how many µs it will hold its key without a renewal; in {rows} that is
// until its transaction ends.
var left = map[string]string{
	"{leases}": `COALESCE((SELECT s.expires_at - {now} FROM {sessions} s WHERE s.id = session_id AND s.dead = 0), 0)`,
	"{rows}":   `token`,
}

// among is the condition for some keys of a namespace, by primary key.
const among = `namespace = ? AND {in name name}`

// holdings begins the statements that read rows of held keys.
func (c *session) holdings() string {
	return `SELECT name, token, session_id, acquisition, owner, meta, since, ` + left[c.table] + ` FROM ` + c.table + ` WHERE `
}

// scanHolding reads one of them.
func scanHolding(scan func(dest ...any) error) (h holding, err error) {
	var since, left int64
	err = scan(&h.info.Key, &h.info.Token, &h.info.Session, &h.acquisition, &h.info.Owner, &h.info.Meta, &since, &left)
	h.info.Since, h.left = time.UnixMicro(since).UTC(), time.Duration(left)*time.Microsecond
	return h, err
}

// read returns the rows of keys.
func (c *session) read(t *sqlkit.Tx, keys sqlkit.Many) (map[string]holding, error) {
	found := map[string]holding{}
	err := t.Query(c.holdings()+among, []any{keys, c.namespace}, func(scan func(...any) error) error {
		h, err := scanHolding(scan)
		found[h.info.Key] = h
		return err
	})
	return found, err
}

// rows is read by itself.
func (c *session) rows(ctx context.Context, keys sqlkit.Many) (rows map[string]holding, err error) {
	err = c.view(ctx, func(t *sqlkit.Tx) error {
		rows, err = c.read(t, keys)
		return err
	})
	return rows, err
}

// List reads the holders whose rows are live, by primary key.
func (c *session) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	where, args := `namespace = ? AND name >= ? AND name > ?`, []any{c.namespace, prefix, after}
	if end := beyond(prefix); end != "" {
		where, args = where+` AND name < ?`, append(args, end)
	}
	err = c.view(ctx, func(t *sqlkit.Tx) error {
		infos = nil
		return t.Query(c.holdings()+where+` AND `+left[c.table]+` > 0 ORDER BY name LIMIT ?`, append(args, limit), func(scan func(...any) error) error {
			h, err := scanHolding(scan)
			infos = append(infos, h.info)
			return err
		})
	})
	if err != nil {
		return nil, c.failed("list", err)
	}
	return infos, nil
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

// check reads which keys are still this session's. If one is not, that may be because all is over: ended says so.
func (c *session) check(ctx context.Context, held []driver.Held, ended func(ctx context.Context) error) ([]bool, error) {
	if len(held) == 0 {
		return nil, nil
	}
	rows, err := c.rows(ctx, sqlkit.Rows(held, func(h driver.Held) []any { return []any{h.Key} }))
	if err != nil {
		return nil, c.failed("check", err)
	}
	still := make([]bool, len(held))
	for i, h := range held {
		row, there := rows[h.Key]
		still[i] = there && row.live() && row.info.Token == h.Token && row.info.Session == c.id
	}
	if slices.Contains(still, false) {
		if err := ended(ctx); err != nil {
			return nil, err
		}
	}
	return still, nil
}
