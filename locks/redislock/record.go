package redislock

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// record is one holding as the server keeps it: see queue.lua.
type record struct {
	token       driver.Token
	session     string
	acquisition string
	since       int64 // µs of the server's clock
	kind        string
	owner, meta string
}

func (r record) String() string {
	return strings.Join([]string{
		strconv.FormatInt(int64(r.token), 10), r.session, r.acquisition, strconv.FormatInt(r.since, 10), r.kind, r.owner, r.meta,
	}, "\n")
}

func parse(text string) (record, error) {
	f := strings.SplitN(text, "\n", 7)
	if len(f) < 7 {
		return record{}, fmt.Errorf("the record of a holder is malformed: %.80q", text)
	}
	token, err := strconv.ParseInt(f[0], 10, 64)
	since, err2 := strconv.ParseInt(f[3], 10, 64)
	if err := cmp.Or(err, err2); err != nil {
		return record{}, fmt.Errorf("the record of a holder is malformed: %.80q: %w", text, err)
	}
	return record{driver.Token(token), f[1], f[2], since, f[4], f[5], f[6]}, nil
}

func (r record) info(key string) driver.Info {
	i := driver.Info{Key: key, Token: r.token, Session: r.session, Owner: r.owner, Meta: r.meta, Since: time.UnixMicro(r.since).UTC()}
	switch r.kind {
	case sharedKind:
		i.Shared = true
	case aloneKind:
	default:
		i.Limit, _ = strconv.Atoi(r.kind)
	}
	return i
}

// The kinds: other ones are limits.
const (
	aloneKind  = "1"
	sharedKind = "s"
)

func kindOf(w driver.Want) string {
	if w.Shared {
		return sharedKind
	}
	return strconv.Itoa(max(w.Limit, 1))
}

// line makes s fit into one field of a record.
func line(s string) string { return strings.ReplaceAll(s, "\n", " ") }
