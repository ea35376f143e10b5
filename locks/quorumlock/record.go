package quorumlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The kinds: see holders in namespace.lua.
const (
	exclusiveKind = "x"
	sharedKind    = "s"
)

func kindOf(w driver.Want) string {
	if w.Shared {
		return sharedKind
	}
	return exclusiveKind
}

// named is a holding, or a vote, as a server shows it.
type named struct {
	driver.Info
	ballot string // with its session: unique
}

// parse reads a field of holders and its value, see namespace.lua, and for how many µs its session lasts.
func parse(field, value, micros any) (named, bool) {
	text := func(part any) string { t, _ := part.(string); return t }
	f, v := strings.Split(text(field), " "), strings.SplitN(text(value), "\n", 4)
	if len(f) != 4 || len(v) != 4 {
		return named{}, false
	}
	token, err := strconv.ParseInt(v[0], 10, 64)
	since, err2 := strconv.ParseInt(v[1], 10, 64)
	left, err3 := strconv.ParseInt(text(micros), 10, 64)
	return named{
		ballot: f[2] + " " + f[3],
		Info: driver.Info{
			Key: f[0], Token: driver.Token(token), Session: f[2], Owner: v[2], Meta: v[3], Shared: f[1] == sharedKind, Since: time.UnixMicro(since).UTC(),
			Remaining: time.Duration(left) * time.Microsecond,
		},
	}, err == nil && err2 == nil && err3 == nil
}

func valueOf(token driver.Token, since int64, owner, meta string) string {
	return fmt.Sprintf("%d\n%d\n%s\n%s", token, since, owner, meta)
}

// singleLine makes s fit into one field of a record.
func singleLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
