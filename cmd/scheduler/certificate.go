package main

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"
)

// expiresSoon is when people should begin to hear that a certificate ends.
const expiresSoon = 14 * 24 * time.Hour

// certificate is the API's own. It can be loaded again while connections are made.
type certificate struct {
	certFile, keyFile string
	pair              atomic.Pointer[tls.Certificate]
}

// load takes over what the files hold. On any error the certificate stays what it was.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair.Store(&pair)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil }

// expiry says that the certificate ends soon, or has ended; "" else.
func (c *certificate) expiry() string {
	end := c.pair.Load().Leaf.NotAfter
	left := time.Until(end)
	switch {
	case left <= 0:
		return "expired at " + end.UTC().Format(time.RFC3339)
	case left < expiresSoon:
		return "expires at " + end.UTC().Format(time.RFC3339)
	}
	return ""
}
