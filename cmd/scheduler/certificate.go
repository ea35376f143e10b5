package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// expiresSoon is when people should begin to hear that a certificate ends.
const expiresSoon = 14 * 24 * time.Hour

// remindEvery is how often the log says so.
const remindEvery = 24 * time.Hour

// maxPEM bounds a file of certificates, or of a key.
const maxPEM = 1 << 20

// certificate is the API's own. It can be loaded again while connections are made.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
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

// load takes over what read returned, and warns of one that ends. On any error the certificate stays what it was.
func (c *certificate) load(contents [][]byte) error {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair.Store(&pair)
	c.warn()
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil }

// end is when clients begin to refuse it.
func (c *certificate) end() time.Time { return c.pair.Load().Leaf.NotAfter }

// expiry says that the certificate ends soon, or has ended, or has not begun; "" else.
func (c *certificate) expiry() string {
	begin, end := c.pair.Load().Leaf.NotBefore, c.end()
	left := time.Until(end)
	switch {
	case left <= 0:
		return "expired at " + end.UTC().Format(time.RFC3339)
	case time.Until(begin) > 0:
		return "is not valid before " + begin.UTC().Format(time.RFC3339)
	case left < expiresSoon:
		return "expires at " + end.UTC().Format(time.RFC3339)
	}
	return ""
}

func (c *certificate) warn() {
	if why := c.expiry(); why != "" {
		c.log.Warn("clients refuse the certificate of the API, or will soon: put another one in its place, without a restart", "why", "it "+why, "file", c.certFile)
	}
}

// remind warns once a day, and when the certificate ends, until ctx is done.
func (c *certificate) remind(ctx context.Context) {
	for {
		pause := remindEvery
		if left := time.Until(c.end()); left > 0 {
			pause = min(pause, left)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			c.warn()
		}
	}
}
