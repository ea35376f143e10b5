package sqllock

import (
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// page is the condition for keys with a prefix after a key.
func (c *calls) page(prefix, after string) (where string, args []any) {
	where, args = `namespace = ? AND name >= ? AND name > ?`, []any{c.namespace, prefix, after}
	if end := beyond(prefix); end != "" {
		where, args = where+` AND name < ?`, append(args, end)
	}
	return where, args
}

func inOrder(rows map[string]holding) []driver.Info {
	infos := make([]driver.Info, 0, len(rows))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		infos = append(infos, rows[name].info)
	}
	return infos
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
