package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// errNoCertificate: the server has asked for a certificate and hung up on a client that has none to show.
var errNoCertificate = errors.New("the server wants a client certificate, and none is configured")

// unwelcome says why the server at addr hangs up on this client, if that is lasting: it refuses the handshake, or the
// client's certificate, or wants one. Nil if it answers, hangs up on everybody, or cannot be reached.
//
// With TLS 1.3 a client learns after its own last word of the handshake that its certificate will not do. What it has
// sent by then is answered with a reset, and whether a write or a read meets that first, and whether the read still
// sees why, is a matter of microseconds. So here a failed write is not looked at: what the server said before it
// hung up is still there to be read.
func unwelcome(ctx context.Context, addr string, settings *tls.Config, hello string) error {
	ctx, cancel := context.WithTimeout(ctx, speakLimit)
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
	without := false // it was asked for a certificate, and had none
	if len(settings.Certificates) == 0 && settings.GetClientCertificate == nil {
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			without = true
			return &tls.Certificate{}, nil
		}
	}
	t := tls.Client(unheard{c}, settings)
	if _, err = io.WriteString(t, hello); err == nil {
		_, err = t.Read(make([]byte, 1))
	}
	switch {
	case anyOf(err, lasting):
		return handshake.Explain(err, true)
	case without && handshake.HungUp(err):
		return errNoCertificate
	}
	return nil
}

// unheard is a connection whose writes may get lost.
type unheard struct{ net.Conn }

func (c unheard) Write(p []byte) (int, error) {
	_, _ = c.Conn.Write(p)
	return len(p), nil
}
