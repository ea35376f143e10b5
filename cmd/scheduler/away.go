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

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// away reports whether err, of opening the lock service, says only that it cannot be reached now. Every other error
// needs somebody to change something: a password, a certificate, a right, a setting of the server, a port where
// another kind of server answers. answer then says what was found out beyond err; it is nil otherwise.
func away(ctx context.Context, l config.Lock, err error) (_ bool, answer error) {
	if anyOf(err, lasting) {
		return false, nil
	}
	if answer = checkServers(ctx, l); answer != nil {
		return false, answer
	}
	return anyOf(err, passing), nil
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
	case wrongServer:
		return true
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
