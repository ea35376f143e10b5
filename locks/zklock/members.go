package zklock

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// members is what the queue of a key has, as one list of its nodes says.
type members struct {
	holders []member // that hold the key together
	places  []member // in their order
	others  []string // nodes that keep the container meanwhile
	version int32    // of the container
}

// member is a node of a queue. Its name says all that the others need, so that a list of names is enough.
//
//	wait-<kind>-<id>-<number>   a place; the server counts the number up
//	hold-<kind>-<id>            a holder
//	pin-<id>                    keeps the container while a key is tried
type member struct {
	name   string
	kind   kind
	id     string // of the holding: its session, and a number there
	number string // of a place
}

const (
	waits = "wait-"
	holds = "hold-"
	pins  = "pin-"
)

func membersOf(children []string, stat *zk.Stat) members {
	c := members{version: stat.Version}
	for _, name := range children {
		if m, ok := parseMember(waits, name); ok {
			c.places = append(c.places, m)
		} else if m, ok := parseMember(holds, name); ok {
			c.holders = append(c.holders, m)
		} else {
			c.others = append(c.others, name)
		}
	}
	slices.SortFunc(c.places, func(a, b member) int { return cmp.Compare(a.number, b.number) })
	slices.SortFunc(c.holders, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return c
}

func parseMember(role, name string) (member, bool) {
	rest, ok := strings.CutPrefix(name, role)
	parts := strings.Split(rest, "-")
	if role == holds {
		parts = append(parts, "") // it has no number
	}
	if !ok || len(parts) != 4 {
		return member{}, false
	}
	k, ok := parseKind(parts[0])
	return member{name: name, kind: k, id: parts[1] + "-" + parts[2], number: parts[3]}, ok
}

// session is that of the member.
func (m member) session() string {
	session, _, _ := strings.Cut(m.id, "-")
	return session
}

// before is the place that one must wait for, if it may not pass it: readers pass readers.
func (c members) before(at int) (member, bool) {
	for i := at - 1; i >= 0; i-- {
		if m := c.places[i]; !m.kind.shared || !c.places[at].kind.shared {
			return m, true
		}
	}
	return member{}, false
}

// info describes a member, with what its node says.
func (m member) info(key string, data []byte, stat *zk.Stat) driver.Info {
	i := parse(data).info(key, stat)
	if i.Shared = m.kind.shared; m.kind.limit > 1 {
		i.Limit = m.kind.limit
	}
	if m.number != "" {
		i.Token = 0
	}
	return i
}
