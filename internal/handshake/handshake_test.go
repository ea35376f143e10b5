package handshake_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func TestExplain(t *testing.T) {
	t.Parallel()
	a := servers.NewAuthority(t)
	for name, c := range map[string]struct {
		server func(net.Conn)
		client *tls.Config
		want   string
	}{
		"fine":                        {serve(a.TLS(a.Server())), a.TLS(), ""},
		"another authority":           {serve(a.TLS(a.Server())), servers.NewAuthority(t).TLS(), "signed by an authority that is not trusted here"},
		"expired":                     {serve(a.TLS(a.Expired())), a.TLS(), "out of its time"},
		"another name":                {serve(a.TLS(a.Client("db"))), a.TLS(), "for another name"},
		"it greets without TLS":       {func(c net.Conn) { _, _ = io.WriteString(c, "J\x00\x00\x00\x0a10.11.6-MariaDB") }, a.TLS(), "does not speak TLS at this port"},
		"it hangs up":                 {func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, a.TLS(), "perhaps it does not speak TLS"},
		"it wants a certificate":      {serve(wanting(a)), a.TLS(), "does not accept the client certificate, or wants one"},
		"no version of TLS is shared": {serve(only(a.TLS(a.Server()), tls.VersionTLS13)), only(a.TLS(), tls.VersionTLS12), "refuses the TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := handshake.Explain(talk(t, c.server, c.client), true)
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if err := handshake.Explain(fmt.Errorf("hello: %w", io.EOF), false); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "perhaps it wants TLS") {
		t.Errorf("without TLS: %v", err)
	}
	if err := errors.New("other"); !errors.Is(handshake.Explain(err, true), err) || handshake.Explain(err, true).Error() != "other" {
		t.Error("what is not about the handshake was changed")
	}
}

func serve(settings *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		s := tls.Server(c, settings)
		buf := make([]byte, 5)
		if _, err := io.ReadFull(s, buf); err == nil {
			_, _ = s.Write(buf)
		}
	}
}

func wanting(a *servers.Authority) *tls.Config {
	c := a.TLS(a.Server())
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, c.RootCAs
	return c
}

func only(c *tls.Config, version uint16) *tls.Config {
	c.MinVersion, c.MaxVersion = version, version
	return c
}

// talk says hello to a server and returns what went wrong.
func talk(t *testing.T, server func(net.Conn), settings *tls.Config) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			server(c)
			_ = c.Close()
		}
	}()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", l.Addr().String(), settings)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 5)) // TLS 1.3 reports a missing certificate here
	return err
}
