package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A client that saw only a reset cannot know the reason. Whether a start without the lock service follows depends on
// the server's TLS, not on timing.
func TestRefusedTLS(t *testing.T) {
	t.Parallel()
	a, unknownAccount := servers.NewAuthority(t), servers.NewAuthority(t)
	wanting := func(how tls.ClientAuthType, version uint16) *tls.Config {
		c := a.TLS(a.Server())
		c.ClientAuth, c.ClientCAs, c.MinVersion, c.MaxVersion = how, a.TLS().RootCAs, version, version
		return c
	}
	const (
		need = tls.RequireAndVerifyClientCert
		ask  = tls.RequestClientCert
		v2   = tls.VersionTLS12
		v3   = tls.VersionTLS13
	)
	refuses := func(settings *tls.Config) func(net.Conn) { // with an alert, and a reset for what came after
		return func(c net.Conn) {
			if tls.Server(c, settings).Handshake() == nil {
				t.Error("it was let in")
			}
			reset(c)
		}
	}
	hangsUp := func(settings *tls.Config) func(net.Conn) { // without a word
		return func(c net.Conn) {
			s := tls.Server(c, settings)
			if err := s.Handshake(); err == nil {
				_, _ = s.Read(make([]byte, 1))
			}
			reset(c)
		}
	}
	closes := func(settings *tls.Config) func(net.Conn) {
		return func(c net.Conn) {
			s := tls.Server(c, settings)
			_ = s.Handshake()
			_ = s.Close()
		}
	}
	for name, c := range map[string]struct {
		server func(net.Conn)
		client *tls.Config
		want   string // part of the error; empty: none, the service is away
	}{
		"1.3, none, and it needs one":               {refuses(wanting(need, v3)), a.TLS(), "wants one"},
		"1.2, none, and it needs one":               {refuses(wanting(need, v2)), a.TLS(), "wants one"},
		"1.3, another authority's":                  {refuses(wanting(need, v3)), a.TLS(unknownAccount.Client("me")), "does not accept the client certificate"},
		"1.2, another authority's":                  {refuses(wanting(need, v2)), a.TLS(unknownAccount.Client("me")), "does not accept the client certificate"},
		"1.3, none, and it hangs up without a word": {hangsUp(wanting(ask, v3)), a.TLS(), "wants a client certificate, and none is configured"},
		"1.2, none, and it hangs up without a word": {hangsUp(wanting(ask, v2)), a.TLS(), "wants a client certificate, and none is configured"},
		"1.3, none, and it closes":                  {closes(wanting(ask, v3)), a.TLS(), "wants a client certificate, and none is configured"},
		"the server's is not trusted":               {closes(unknownAccount.TLS(unknownAccount.Server())), a.TLS(), "not trusted here"},
		"it asks for none: a proxy before nothing":  {closes(wanting(tls.NoClientCert, v3)), a.TLS(), ""},
		"it asks for none, and resets":              {hangsUp(wanting(tls.NoClientCert, v3)), a.TLS(), ""},
		"the right one, and it hangs up":            {hangsUp(wanting(need, v3)), a.TLS(a.Client("me")), ""},
		"it hangs up before TLS":                    {reset, a.TLS(), ""},
		"it answers": {func(c net.Conn) {
			s := tls.Server(c, wanting(ask, v3))
			if _, err := s.Read(make([]byte, 6)); err == nil {
				_, _ = io.WriteString(s, "+PONG\r\n")
			}
		}, a.TLS(), ""},
		"it says nothing": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, a.TLS(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := listening(t, c.server)
			lock := config.Lock{Driver: config.Redis, Redis: config.RedisLock{Addrs: []string{addr}, TLS: c.client}}
			// A refusal comes, however slow the machine is. What is not refused is asked what it is, for as long as the program does.
			rounds, limit := 20, time.Minute
			if c.want == "" {
				rounds, limit = 1, probeTimeout
			}
			for range rounds {
				gone, why := unreachableWithin(t.Context(), lock, fmt.Errorf("hello: %w", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}), limit)
				switch {
				case c.want == "" && (!gone || why != nil):
					t.Fatalf("want unreachable, not refused: %v", why)
				case c.want != "" && (gone || why == nil || !strings.Contains(why.Error(), c.want) || !strings.Contains(why.Error(), addr)):
					t.Fatalf("unreachable %t: %v; want %q", gone, why, c.want)
				}
			}
		})
	}
}

// reset closes a connection with a reset.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// listening serves each connection, and returns the address.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}
