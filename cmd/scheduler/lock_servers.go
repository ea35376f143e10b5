package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/config"
)

// wrongServer is the error that at a configured address something else answers than should, or refuses this client.
type wrongServer struct{ error }

func (w wrongServer) Unwrap() error { return w.error }

// checkServers asks each address of the lock service what answers there. Its error, a wrongServer, names the first that is
// another kind of server, or that refuses this client's TLS; it is nil if there is none, or nothing answers. It takes up to
// two seconds an address.
func checkServers(ctx context.Context, l config.Lock) error {
	kind, field, addrs, settings := lockServers(l)
	words := firstWords[kind]
	if settings != nil {
		kind = speaksTLS
	}
	for _, addr := range addrs {
		if settings != nil {
			if why := unwelcome(ctx, addr, settings, words); why != nil {
				return wrongServer{fmt.Errorf("%s: %s: %w", field, addr, why)}
			}
		}
		if answers := speaks(ctx, addr); len(answers) > 0 && !slices.Contains(answers, kind) {
			return wrongServer{fmt.Errorf("%s: %s answers at %s, not %s%s", field, answers[0], addr, kind, wantsTLS(l, answers[0]))}
		}
	}
	return nil
}

// wantsTLS is what to do about a server with TLS that is talked to without.
func wantsTLS(l config.Lock, answers string) string {
	if answers != speaksTLS {
		return ""
	}
	return fmt.Sprintf("; if that is the right one, set lock.%s.tls.enabled", l.Driver)
}

// lockServers says what should answer where, and with which TLS, if it begins with that.
func lockServers(l config.Lock) (kind, field string, addrs []string, settings *tls.Config) {
	switch l.Driver {
	case config.Redis:
		return speaksRedis, "lock.redis.addrs", l.Redis.Addrs, l.Redis.TLS
	case config.ZooKeeper:
		return speaksZooKeeper, "lock.zookeeper.servers", l.ZooKeeper.Servers, l.ZooKeeper.TLS
	default: // whose servers greet before there is TLS
		if d, err := mysql.ParseDSN(l.MySQL.DSN); err == nil && d.Net == "tcp" {
			addrs = []string{d.Addr}
		}
		return speaksMySQL, "lock.mysql.dsn", addrs, nil
	}
}

// What speaks finds.
const (
	speaksRedis     = "Redis without TLS"
	speaksZooKeeper = "ZooKeeper without TLS"
	speaksMySQL     = "MySQL"
	speaksTLS       = "a server with TLS"
	speaksOther     = "another kind of server"
)

// firstWords are answered to every client.
var firstWords = map[string]string{speaksRedis: "PING\r\n", speaksZooKeeper: "ruok"}

// speakLimit bounds how long a port is looked at.
const speakLimit = time.Second

// speaks says what answers at an address, in the order above. Nothing is given away: each kind is said hello to in
// its own words, on a connection of its own, and with TLS the hand is shaken and no more.
func speaks(ctx context.Context, addr string) []string {
	ctx, cancel := context.WithTimeout(ctx, speakLimit)
	defer cancel()
	hellos := []func(net.Conn) string{hello(firstWords[speaksRedis]), hello(firstWords[speaksZooKeeper]), hello(""), helloTLS}
	found := make([]string, len(hellos))
	var all sync.WaitGroup
	for i, say := range hellos {
		all.Go(func() {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				return
			}
			defer c.Close()
			deadline, _ := ctx.Deadline()
			_ = c.SetDeadline(deadline)
			found[i] = say(c)
		})
	}
	all.Wait()
	var answers []string
	for _, kind := range []string{speaksRedis, speaksZooKeeper, speaksMySQL, speaksTLS, speaksOther} {
		if slices.Contains(found, kind) {
			answers = append(answers, kind)
		}
	}
	return answers
}

// hello sends some text and looks at what comes back.
func hello(text string) func(net.Conn) string {
	return func(c net.Conn) string {
		if _, err := io.WriteString(c, text); err != nil {
			return ""
		}
		answer := make([]byte, 16)
		n, _ := io.ReadAtLeast(c, answer, 5)
		said := string(answer[:n])
		switch {
		case n < 4:
			return ""
		case strings.HasPrefix(said, "+PONG"), text != "" && said[0] == '-':
			return speaksRedis
		case strings.HasPrefix(said, "imok"), strings.HasPrefix(said, "ruok is"):
			return speaksZooKeeper
		case n > 4 && said[3] == 0 && (said[4] == 10 || said[4] == 0xff): // the first packet: a greeting, or why there is none
			return speaksMySQL
		}
		return speaksOther
	}
}

func helloTLS(c net.Conn) string {
	err := tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:gosec // whoever it is, nothing is sent to it
	if alert, ok := errors.AsType[*net.OpError](err); err == nil || ok && alert.Op == "remote error" {
		return speaksTLS
	}
	return ""
}
