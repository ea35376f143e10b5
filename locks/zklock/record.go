package zklock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// record is what the node of a holding says; whose it is and since when is kept by the server.
type record struct {
	id, owner, meta string
	ttl             time.Duration // of the session, in ms; 0: the node does not say
}

// bytes has the ttl in a line of its own behind the meta. Earlier clients wrote none, and read it as a part of the meta.
func (r record) bytes() []byte {
	return []byte(strings.Join([]string{r.id, r.owner, r.meta, strconv.FormatInt(r.ttl.Milliseconds(), 10)}, "\n"))
}

// parse accepts any content: a node made by hand still holds the key.
func parse(data []byte) record {
	f := append(strings.SplitN(string(data), "\n", 3), "", "")
	r := record{id: f[0], owner: f[1], meta: f[2]}
	if at := strings.LastIndexByte(r.meta, '\n'); at >= 0 {
		if ms, err := strconv.ParseUint(r.meta[at+1:], 10, 31); err == nil {
			r.meta, r.ttl = r.meta[:at], time.Duration(ms)*time.Millisecond
		}
	}
	return r
}

// info says that all of the ttl remains: the server tells nobody when it last heard of a session. It rounds the end of one up to its
// next tick.
func (r record) info(key string, stat *zk.Stat) driver.Info {
	return driver.Info{
		Key: key, Token: driver.Token(stat.Czxid), Session: sessionID(stat.EphemeralOwner),
		Owner: r.owner, Meta: r.meta, Since: time.UnixMilli(stat.Ctime).UTC(), Remaining: r.ttl,
	}
}

func sessionID(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// line makes s fit into one line of a record.
func line(s string) string { return strings.ReplaceAll(s, "\n", " ") }
