// Package handshake explains why a client and a server could not agree on a protocol.
package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// Explain puts the likely reason in front of an error of the first exchange with a server, sent with TLS or
// without. Other errors, and nil, are returned as they are.
func Explain(err error, encrypted bool) error {
	if why := reason(err, encrypted); why != "" {
		return fmt.Errorf("%s: %w", why, err)
	}
	return err
}

// Denied says what else a wrong password may mean, if settings (nil: no TLS) are incomplete: MySQL refuses
// accounts that need TLS, or a certificate, with the same error.
func Denied(err error, settings *tls.Config) error {
	switch {
	case settings == nil:
		return fmt.Errorf("wrong password, or the account needs TLS: %w", err)
	case len(settings.Certificates) == 0 && settings.GetClientCertificate == nil:
		return fmt.Errorf("wrong password, or the account needs a client certificate: %w", err)
	}
	return err
}

func reason(err error, encrypted bool) string {
	var (
		plain   tls.RecordHeaderError
		stray   x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		other   x509.HostnameError
		remote  *net.OpError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &plain):
		return "the server does not speak TLS at this port"
	case errors.As(err, &stray):
		return "the server's certificate is signed by an authority that is not trusted here"
	case errors.As(err, &other):
		return "the server's certificate is for another name"
	case errors.As(err, &invalid):
		if invalid.Reason == x509.Expired {
			return "the server's certificate is out of its time"
		}
		return "the server's certificate is not valid"
	case errors.As(err, &remote) && remote.Op == "remote error": // how crypto/tls passes on an alert
		if alert := remote.Err.Error(); strings.Contains(alert, "certificate") || strings.Contains(alert, "handshake failure") {
			return "the server does not accept the client certificate, or wants one"
		}
		return "the server refuses the TLS handshake"
	case !HungUp(err):
		return ""
	case encrypted:
		return "the server hung up, perhaps it does not speak TLS at this port, or wants a client certificate"
	default:
		return "the server hung up, perhaps it wants TLS"
	}
}

// HungUp reports whether err says that the server closed the connection without an answer.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
