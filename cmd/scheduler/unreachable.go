package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	sqldriver "database/sql/driver"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// unreachable reports whether err, of opening the lock service, may end by itself. Every other error needs a change: a
// password, a certificate, a permission, a server setting, an address. diagnosis adds what a probe of the servers
// found; it is nil for none.
func unreachable(ctx context.Context, l config.Lock, err error) (_ bool, diagnosis error) {
	return unreachableWithin(ctx, l, err, probeTimeout)
}

// unreachableWithin is unreachable with a limit of the probe: who answers later is not there.
func unreachableWithin(ctx context.Context, l config.Lock, err error, limit time.Duration) (_ bool, diagnosis error) {
	if anyOf(err, permanent) {
		return false, nil
	}
	if diagnosis = checkServers(ctx, l, limit); diagnosis != nil {
		return false, diagnosis
	}
	return anyOf(err, transient), nil
}

// anyOf reports whether is matches err or an error that it wraps.
func anyOf(err error, is func(error) bool) bool {
	if err == nil {
		return false
	}
	if is(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // it unwraps
	case interface{ Unwrap() error }:
		return anyOf(e.Unwrap(), is)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return anyOf(err, is) })
	}
	return false
}

// busyRedis and busyMySQL are transient refusals: the server starts, fails over or has no free connection.
var (
	busyRedis = []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "ERR max number of clients"}
	busyMySQL = []uint16{1040, 1053, 1129, 1203} // no connection free; shutting down; host blocked for errors; no connection free for the user
)

// permanentMySQL are errors of the MySQL client about the server's authentication or protocol.
var permanentMySQL = []error{
	mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin, mysql.ErrOldProtocol,
}

// permanent: a server has replied, and a retry gets the same reply.
func permanent(err error) bool {
	switch e := err.(type) { //nolint:errorlint // anyOf unwraps
	case tls.RecordHeaderError, *tls.CertificateVerificationError,
		x509.UnknownAuthorityError, x509.CertificateInvalidError, x509.HostnameError:
		return true
	case *net.OpError:
		return e.Op == "remote error" // a TLS alert
	case wrongServer:
		return true
	case *mysql.MySQLError:
		return !slices.Contains(busyMySQL, e.Number)
	case redis.Error:
		return !slices.ContainsFunc(busyRedis, func(prefix string) bool { return strings.HasPrefix(e.Error(), prefix) })
	}
	return slices.Contains(permanentMySQL, err)
}

// transient: no reply, or one of those that a retry may change.
func transient(err error) bool {
	switch e := err.(type) { //nolint:errorlint // anyOf unwraps
	case *net.DNSError, *mysql.MySQLError, redis.Error: // those that are not permanent; a DNS name may be missing while its server is down
		return true
	case *net.OpError:
		return e.Op == "dial" || e.Timeout()
	case syscall.Errno: // also a net.Error
		return e == syscall.ECONNRESET || e == syscall.EPIPE || e.Timeout()
	case net.Error:
		return e.Timeout()
	}
	return slices.Contains([]error{
		driver.ErrUnreachable, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF,
		zk.ErrNoServer, zk.ErrConnectionClosed, mysql.ErrInvalidConn, sqldriver.ErrBadConn,
	}, err)
}
