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

// expiresSoon is how long before its end a certificate is reported.
const expiresSoon = 14 * 24 * time.Hour

// remindEvery is the interval between these warnings in the log.
const remindEvery = 24 * time.Hour

// maxPEM bounds a certificate or key file, in bytes.
const maxPEM = 1 << 20

// certificate is the API's. It can be reloaded while connections are open.
//
//  1. warn at each load if it is expired, expires soon or is not valid yet
//  2. wait remindEvery, or until it expires
//  3. warn in the same way, and wait again
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	pair              atomic.Pointer[tls.Certificate]
}

// read returns the content of both files.
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

// load replaces the certificate, and warns if it expires soon. On an error the previous certificate stays.
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

// end is the time from which clients refuse it.
func (c *certificate) end() time.Time { return c.pair.Load().Leaf.NotAfter }

// expiry describes a certificate that is expired, expires soon or is not valid yet; "" for a valid one.
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
		c.log.Warn("the API's certificate is not valid, or expires soon: replace the file, no restart is needed", "why", why, "file", c.certFile)
	}
}

// remind takes steps 2 and 3 until ctx is done.
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
