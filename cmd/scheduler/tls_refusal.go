package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// errNoCertificate: the server requested a client certificate, and closed the connection without one.
var errNoCertificate = errors.New("the server wants a client certificate, and none is configured")

// tlsRefusal returns why the server at addr refuses this client's TLS, if that is permanent: it rejects the handshake
// or the client's certificate, or requires one. It is nil if the server accepts, does not answer, or cannot be reached.
//
// With TLS 1.3 the server's alert about a client certificate comes after the client's handshake, and a reset may follow
// it. A write that fails by the reset must not hide the alert, which can still be read: so errors of writes are
// ignored.
func tlsRefusal(ctx context.Context, addr string, settings *tls.Config, sendProbe string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
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
