package zklock

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// record is what the node of a holding says; whose it is and since when is kept by the server.
type record struct{ id, owner, meta string }

func (r record) bytes() []byte {
	return []byte(strings.Join([]string{r.id, r.owner, r.meta}, "\n"))
}

// parse accepts any content: a node made by hand still holds the key.
func parse(data []byte) record {
	f := append(strings.SplitN(string(data), "\n", 3), "", "")
	return record{f[0], f[1], f[2]}
}

func (r record) info(key string, stat *zk.Stat) driver.Info {
	return driver.Info{
		Key: key, Token: driver.Token(stat.Czxid), Session: sessionID(stat.EphemeralOwner),
		Owner: r.owner, Meta: r.meta, Since: time.UnixMilli(stat.Ctime).UTC(),
	}
}

func sessionID(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// line makes s fit into one line of a record.
func line(s string) string { return strings.ReplaceAll(s, "\n", " ") }
