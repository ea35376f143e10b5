package main

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// expiresSoon is when people should begin to hear that a certificate ends.
const expiresSoon = 14 * 24 * time.Hour

// maxPEM bounds a file of certificates, or of a key.
const maxPEM = 1 << 20

// certificate is the API's own. It can be loaded again while connections are made.
type certificate struct {
	certFile, keyFile string
	pair              atomic.Pointer[tls.Certificate]
}

// read returns what is in the two files.
func (c *certificate) read() ([][]byte, error) {
	cert, err := trustedfile.Rule{Limit: maxPEM}.Read(c.certFile)
	if err != nil {
		return nil, err
	}
	key, err := trustedfile.Rule{Limit: maxPEM, Secret: true}.Read(c.keyFile)
	if err != nil {
		return nil, err
	}
	return [][]byte{cert.Data, key.Data}, nil
}

// load takes over what read returned. On any error the certificate stays what it was.
func (c *certificate) load(contents [][]byte) error {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
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
