//go:build linux

package arena

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Inventory counts what replicas use: in the process, at the servers, on the machine.
type Inventory map[string]int

// allowed is the growth that is no leak: pools of connections vary.
func allowed(what string) int {
	switch kind, _, _ := strings.Cut(what, " of "); kind {
	case "fds":
		return 40
	case "goroutines":
		return 60
	case "helpers": // started when the first command is
		return 1
	case "connections":
		return 48
	case "redis keys", "znodes", "lock rows":
		return 8
	case "live MB":
		return 30
	case "MB":
		return 150
	}
	return 0
}

// gauges are metrics of a replica.
var gauges = []struct {
	what, metric string
	shift        int  // to the right
	resident     bool // useless with the race detector, whose memory grows with all memory ever touched
}{
	{"goroutines", "go_goroutines", 0, false},
	{"MB", "process_resident_memory_bytes", 20, true},
	{"live MB", "go_memstats_next_gc_bytes", 21, false}, // twice what was live at the last collection
}

// metrics asks r until it answers, for twenty seconds: on a busy machine the page of a replica with the race detector may take some.
func (r *Replica) metrics(ctx context.Context) (page []byte) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		status, page := r.get(ctx, "/metrics")
		if status == http.StatusOK {
			return page
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Inventory counts. A server or replica that does not answer is an error.
func (a *Arena) Inventory(ctx context.Context) (Inventory, error) {
	n := Inventory{"commands": 0, "temp files": 0}
	for _, r := range a.Replicas {
		n["fds of "+r.ID] = Descriptors(r.PID())
		n["helpers of "+r.ID] = max(len(r.Group())-1, 0)
		text := r.metrics(ctx)
		for _, g := range gauges {
			if g.resident && a.raced {
				continue
			}
			value, err := gauge(text, g.metric)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.ID, err)
			}
			n[g.what+" of "+r.ID] = value >> g.shift
		}
	}
	n["commands"] = len(a.commands())
	files, err := filepath.Glob(filepath.Join(a.tmp, "*"))
	if err != nil {
		return nil, err
	}
	n["temp files"] = len(files)
	if n["rows past their retention"], err = a.overdue(ctx); err != nil {
		return nil, err
	}
	switch {
	case a.Redis != nil:
		n["redis keys"], err = number(ctx, a.Redis.Addr, "DBSIZE\r\n", ":")
	case a.Quorum != nil:
		for _, s := range a.Quorum {
			keys, failed := number(ctx, s.Addr, "DBSIZE\r\n", ":")
			n["redis keys"] += keys
			err = errors.Join(err, failed)
		}
	case a.ZooKeeper != nil:
		var leader *servers.ZooKeeperServer
		if leader, err = a.ZooKeeper.AwaitLeader(ctx); err == nil {
			n["znodes"], err = number(ctx, leader.Addr, "mntr", "zk_znode_count")
		}
	case a.LockStore != nil:
		n["lock rows"], err = a.lockRows(ctx)
	}
	if err != nil {
		return nil, err
	}
	if a.Store != nil {
		err = a.database(func(db *sql.DB, _ dialect) error {
			var count int
			err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?", Account).Scan(&count)
			n["connections of replicas"] = count
			return err
		})
	}
	return n, err
}

// lockRows counts the rows of locks and their sessions in the database of locks.
func (a *Arena) lockRows(ctx context.Context) (n int, err error) {
	db, err := sql.Open("mysql", a.LockStore.DSNOf("root", "", Database))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	tables := []string{"leases2", "places", "sessions2"}
	if a.Cell.Lock == Row {
		tables = []string{"rows", "holds", "anchors"}
	}
	for _, table := range tables {
		var more int
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+prefix+"lock_"+table).Scan(&more); err != nil {
			return n, fmt.Errorf("count lock_%s: %w", table, err)
		}
		n += more
	}
	return n, nil
}

// leftovers compares two inventories. Of commands nothing may be left.
func leftovers(before, after Inventory) (all []history.Leftover) {
	for what, n := range after {
		was := before[what]
		if what == "commands" {
			was = 0
		}
		all = append(all, history.Leftover{What: what, Before: was, After: n, Allowed: allowed(what)})
	}
	return all
}

// gauge reads a value out of a page of metrics.
func gauge(page []byte, name string) (int, error) {
	for line := range bytes.Lines(page) {
		if rest, is := bytes.CutPrefix(line, []byte(name+" ")); is {
			v, err := strconv.ParseFloat(string(bytes.TrimSpace(rest)), 64)
			return int(v), err
		}
	}
	return 0, fmt.Errorf("no %s in its metrics, of %d bytes", name, len(page))
}

// number asks a server that speaks text for a number.
func number(ctx context.Context, addr, question, before string) (int, error) {
	text, err := word(ctx, addr, question, before)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// word asks a server with a text protocol, and returns the text behind the beginning of a line.
func word(ctx context.Context, addr, question, before string) (string, error) {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write([]byte(question)); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if rest, is := strings.CutPrefix(lines.Text(), before); is {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("%s did not answer %q", addr, strings.TrimSpace(question))
}
