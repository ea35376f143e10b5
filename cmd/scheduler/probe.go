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
	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// wrongServer means that a configured address has another kind of server, or one that refuses this client.
type wrongServer struct{ error }

func (w wrongServer) Unwrap() error { return w.error }

// checkServers probes each address of the lock service. Its error, a wrongServer, names the first that has another kind
// of server or refuses this client's TLS; nil if there is none, or nothing answers within the limit, which each address has
// twice.
func checkServers(ctx context.Context, l config.Lock, limit time.Duration) error {
	kind, field, addrs, settings := lockServers(l)
	text := probeText[kind]
	if settings != nil {
		kind = isTLS
	}
	for _, addr := range addrs {
		if settings != nil {
			if why := tlsRefusal(ctx, addr, settings, text, limit); why != nil {
				return wrongServer{fmt.Errorf("%s: %s: %w", field, addr, why)}
			}
		}
		if answers := probe(ctx, addr, limit); len(answers) > 0 && !slices.Contains(answers, kind) {
			return wrongServer{fmt.Errorf("%s: %s answers at %s, not %s%s", field, answers[0], addr, kind, tlsHint(l, answers[0]))}
		}
	}
	return nil
}

// tlsHint is the advice for a server that speaks TLS where none is configured.
func tlsHint(l config.Lock, answers string) string {
	if answers != isTLS {
		return ""
	}
	return fmt.Sprintf("; if that is the right one, set lock.%s.tls.enabled", l.Driver)
}

// lockServers lists the configured addresses, the kind of server expected there, and its TLS settings, if TLS comes
// first.
func lockServers(l config.Lock) (kind, field string, addrs []string, settings *tls.Config) {
	switch l.Driver {
	case config.Redis:
		return isRedis, "lock.redis.addrs", l.Redis.Addrs, l.Redis.TLS
	case config.Quorum:
		return isRedis, "lock.quorum.nodes", l.Quorum.Addrs(), l.Quorum.TLS
	case config.ZooKeeper:
		return isZooKeeper, "lock.zookeeper.servers", l.ZooKeeper.Servers, l.ZooKeeper.TLS
	default: // MySQL greets before TLS
		if d, err := mysql.ParseDSN(l.MySQL.DSN); err == nil && d.Net == "tcp" {
			addrs = []string{d.Addr}
		}
		return isMySQL, "lock.mysql.dsn", addrs, nil
	}
}

// Kinds of servers, as probe names them.
const (
	isRedis     = "Redis without TLS"
	isZooKeeper = "ZooKeeper without TLS"
	isMySQL     = "MySQL"
	isTLS       = "a server with TLS"
	isOther     = "another kind of server"
)

// probeText is answered by a server of its kind without a login.
var probeText = map[string]string{isRedis: "PING\r\n", isZooKeeper: "ruok"}

// probeTimeout is the limit of the probes of one address.
const probeTimeout = time.Second

// probe returns the kinds of servers that answer at an address within the limit, in the order above. Each kind is probed on its own
// connection. No credential is sent, and a TLS connection ends after the handshake.
func probe(ctx context.Context, addr string, limit time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	probes := []func(net.Conn) string{sendProbe(probeText[isRedis]), sendProbe(probeText[isZooKeeper]), sendProbe(""), probeTLS}
	found := make([]string, len(probes))
	var all sync.WaitGroup
	for i, say := range probes {
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
	for _, kind := range []string{isRedis, isZooKeeper, isMySQL, isTLS, isOther} {
		if slices.Contains(found, kind) {
			answers = append(answers, kind)
		}
	}
	return answers
}

// sendProbe sends text and classifies the reply.
func sendProbe(text string) func(net.Conn) string {
	return func(c net.Conn) string {
		if _, err := io.WriteString(c, text); err != nil {
			return ""
		}
		answer := make([]byte, 16)
		n, _ := io.ReadAtLeast(c, answer, 5)
		reply := string(answer[:n])
		switch {
		case n < 4:
			return ""
		case strings.HasPrefix(reply, "+PONG"), text != "" && reply[0] == '-':
			return isRedis
		case strings.HasPrefix(reply, "imok"), strings.HasPrefix(reply, "ruok is"):
			return isZooKeeper
		case n > 4 && reply[3] == 0 && (reply[4] == 10 || reply[4] == 0xff): // the first packet: a greeting or an error
			return isMySQL
		}
		return isOther
	}
}

func probeTLS(c net.Conn) string {
	err := tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:gosec // nothing is sent
	if alert, ok := errors.AsType[*net.OpError](err); err == nil || ok && alert.Op == "remote error" {
		return isTLS
	}
	return ""
}

// errNoCertificate: the server requested a client certificate, and closed the connection without one.
var errNoCertificate = errors.New("the server wants a client certificate, and none is configured")

// tlsRefusal returns why the server at addr refuses this client's TLS, if that is permanent: it rejects the handshake
// or the client's certificate, or requires one. It is nil if the server accepts, does not answer within the limit, or cannot be reached.
//
// With TLS 1.3 the server's alert about a client certificate comes after the client's handshake, and a reset may follow
// it. A write that fails by the reset must not hide the alert, which can still be read: so errors of writes are
// ignored.
func tlsRefusal(ctx context.Context, addr string, settings *tls.Config, sendProbe string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)

	settings = settings.Clone()
	if settings.ServerName == "" {
		settings.ServerName, _, _ = net.SplitHostPort(addr)
	}
	without := false // a certificate was requested, and there is none
	if len(settings.Certificates) == 0 && settings.GetClientCertificate == nil {
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			without = true
			return &tls.Certificate{}, nil
		}
	}
	t := tls.Client(ignoreWriteErrors{c}, settings)
	if _, err = io.WriteString(t, sendProbe); err == nil {
		_, err = t.Read(make([]byte, 1))
	}
	switch {
	case anyOf(err, permanent):
		return handshake.Explain(err, true)
	case without && handshake.HungUp(err):
		return errNoCertificate
	}
	return nil
}

// ignoreWriteErrors is a connection whose writes always succeed.
type ignoreWriteErrors struct{ net.Conn }

func (c ignoreWriteErrors) Write(p []byte) (int, error) {
	_, _ = c.Conn.Write(p)
	return len(p), nil
}
