package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// away reports whether err, of opening the lock service, says only that it cannot be reached now. Every other error
// needs somebody to change something: a password, a certificate, a right, a setting of the server, a port where
// another kind of server answers. answer then says what was found out beyond err: what answers where, or why a server
// with TLS hangs up; it is nil otherwise.
func away(ctx context.Context, l config.Lock, err error) (_ bool, answer error) {
	if anyOf(err, lasting) {
		return false, nil
	}
	kind, field, addrs, settings := lockServers(l)
	words := firstWords[kind]
	if settings != nil {
		kind = speaksTLS
	}
	for _, addr := range addrs {
		if settings != nil {
			if why := unwelcome(ctx, addr, settings, words); why != nil {
				return false, fmt.Errorf("%s: %s: %w", field, addr, why)
			}
		}
		if answers := speaks(ctx, addr); len(answers) > 0 && !slices.Contains(answers, kind) {
			return false, fmt.Errorf("%s: %s answers at %s, not %s", field, answers[0], addr, kind)
		}
	}
	return anyOf(err, passing), nil
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

// anyOf reports whether is holds for an error, or for one that it wraps.
func anyOf(err error, is func(error) bool) bool {
	if err == nil {
		return false
	}
	if is(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // this is what takes them apart
	case interface{ Unwrap() error }:
		return anyOf(e.Unwrap(), is)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return anyOf(err, is) })
	}
	return false
}

// busyRedis and busyMySQL are answers of servers that start, change over or have no room, and that later say
// something else.
var (
	busyRedis = []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "ERR max number of clients"}
	busyMySQL = []uint16{1040, 1053, 1129, 1203} // no connection free; shutting down; host blocked for errors; no connection free for the user
)

// lastingMySQL is what the client says of an answer that it does not go along with.
var lastingMySQL = []error{
	mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin, mysql.ErrOldProtocol,
}

// lasting: the server has answered, and would answer the same tomorrow.
func lasting(err error) bool {
	switch e := err.(type) { //nolint:errorlint // anyOf unwraps
	case tls.RecordHeaderError, *tls.CertificateVerificationError,
		x509.UnknownAuthorityError, x509.CertificateInvalidError, x509.HostnameError:
		return true
	case *net.OpError:
		return e.Op == "remote error" // how crypto/tls passes on an alert
	case *mysql.MySQLError:
		return !slices.Contains(busyMySQL, e.Number)
	case redis.Error:
		return !slices.ContainsFunc(busyRedis, func(prefix string) bool { return strings.HasPrefix(e.Error(), prefix) })
	}
	return slices.Contains(lastingMySQL, err)
}

// passing: nobody has answered, or only that this is not the time.
func passing(err error) bool {
	switch e := err.(type) { //nolint:errorlint // anyOf unwraps
	case *net.DNSError, *mysql.MySQLError, redis.Error: // those that are not lasting; a name may be unknown while its server is away
		return true
	case *net.OpError:
		return e.Op == "dial" || e.Timeout()
	case syscall.Errno: // which is a net.Error, too
		return e == syscall.ECONNRESET || e == syscall.EPIPE || e.Timeout()
	case net.Error:
		return e.Timeout()
	}
	return slices.Contains([]error{
		driver.ErrUnreachable, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF,
		zk.ErrNoServer, zk.ErrConnectionClosed, mysql.ErrInvalidConn, sqldriver.ErrBadConn,
	}, err)
}

// What speaks finds.
const (
	speaksRedis     = "Redis without TLS"
	speaksZooKeeper = "ZooKeeper without TLS"
	speaksMySQL     = "MySQL"
	speaksTLS       = "a server with TLS"
	speaksOther     = "another kind of server"
)

// firstWords have an answer, whoever asks.
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
