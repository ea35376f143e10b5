package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// serveOn serves the API with tokens on l until the test ends.
func serveOn(t *testing.T, l net.Listener, keys tokenSet, o ServeOptions) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, newBackend().api(Options{Access: keys}), o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// loopback listens at any address of this machine, so that clients can come from several.
func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get requests a list of jobs over a connection, and returns the status line.
func get(t *testing.T, conn net.Conn, token string) (string, error) {
	t.Helper()
	authorization := ""
	if token != "" {
		authorization = "Authorization: Bearer " + token + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n%s\r\n", authorization); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.Status[:3], err
}

// open reports whether the peer keeps an idle connection open.
func open(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	defer func() { _ = conn.SetReadDeadline(time.Now().Add(20 * time.Second)) }()
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestAnonymousDelayOnlyEachOther: anonymous connections do not keep authenticated ones out, and their number is
// bounded.
func TestAnonymousDelayOnlyEachOther(t *testing.T) {
	keys := newTokenSet()
	var log strings.Builder
	address := serveOn(t, loopback(t), keys, ServeOptions{MaxConnections: 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	operator := dial(t, address)
	if status, err := get(t, operator, keys.secrets[Operator]); status != "200" {
		t.Fatal(status, err)
	}
	refused := dial(t, address)
	if status, err := get(t, refused, ""); status != "401" {
		t.Fatal(status, err)
	}
	var anonymous []net.Conn
	began := time.Now()
	for range 30 {
		anonymous = append(anonymous, dial(t, address))
	}
	await.Until(t, "the first ones are gone", func() bool { return !open(anonymous[20]) && !open(refused) })
	if took := time.Since(began); took < 2*anonymousSilence {
		t.Errorf("21 anonymous connections have had no more than %v", took)
	}
	left := 0
	for _, conn := range anonymous {
		if open(conn) {
			left++
		}
	}
	if left != 9 || !open(anonymous[29]) {
		t.Errorf("%d anonymous connections are left of 30, the latest: %v", left, open(anonymous[29]))
	}
	if status, err := get(t, operator, keys.secrets[Operator]); status != "200" {
		t.Errorf("who was in before: %s %v", status, err)
	}
	if status, err := get(t, dial(t, address), keys.secrets[Viewer]); status != "200" {
		t.Errorf("who comes now: %s %v", status, err)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "all places are taken") {
		t.Errorf("the log says %q", log.String())
	}
	for _, conn := range anonymous {
		conn.Close()
	}
	await.Until(t, "there is room again", func() bool {
		conn := dial(t, address)
		defer conn.Close()
		status, _ := get(t, conn, "")
		return status == "401" && open(conn)
	})
}

// pretended is a listener whose connections have addresses chosen by the test.
type fakeAddresses struct {
	net.Listener
	from atomic.Pointer[net.TCPAddr]
}

type fakeAddressConn struct {
	net.Conn
	from *net.TCPAddr
}

func (l *fakeAddresses) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return fakeAddressConn{conn, l.from.Load()}, nil
}

func (c fakeAddressConn) RemoteAddr() net.Addr { return c.from }

// TestAddressShare: one address, or IPv6 network, cannot take all places; trusted proxies and loopback may.
func TestAddressShare(t *testing.T) {
	t.Parallel()
	l := &fakeAddresses{Listener: loopback(t)}
	address := serveOn(t, l, newTokenSet(), ServeOptions{MaxConnections: 64, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
	var all []net.Conn
	connect := func(n int, from ...string) (conns []net.Conn) {
		for i := range n {
			l.from.Store(&net.TCPAddr{IP: net.ParseIP(from[i%len(from)]), Port: 1024 + i})
			conn := dial(t, address)
			if status, err := get(t, conn, ""); status != "401" { // it was accepted
				t.Fatal(status, err)
			}
			conns = append(conns, conn)
		}
		all = append(all, conns...)
		return conns
	}
	left := func(conns []net.Conn) (n int) {
		for _, conn := range conns {
			if open(conn) {
				n++
			}
		}
		return n
	}
	other := connect(1, "192.0.2.7")
	v4, v6 := connect(40, "192.0.2.1"), connect(40, "2001:db8::1", "2001:db8::2", "2001:db8::ffff:3")
	if a, b := left(v4), left(v6); a != 16 || b != 16 || !open(other[0]) {
		t.Errorf("%d and %d of 40 are left, want 16; the other one: %v", a, b, open(other[0]))
	}
	for _, conn := range all {
		conn.Close()
	}
	for _, from := range []string{"127.0.0.1", "10.9.8.7"} {
		await.Until(t, "all have gone", func() bool { return len(connect(1, from)) == 1 && left(connect(50, from)) == 50 })
		for _, conn := range all {
			conn.Close()
		}
	}
}

// TestIdleAnonymous: a connection without a good token has a short idle timeout, with HTTP/2 too; an authenticated one,
// or a trusted proxy's, stays.
func TestIdleAnonymous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}})
		defer close(l.closing)
		go l.expire()
		connect := func(from string) *connection {
			server, _ := net.Pipe()
			c, _ := l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.ParseIP(from)}})
			return c
		}
		there := func(c *connection) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			_, in := l.all[c]
			return in
		}
		silent, proxy, asks, known := connect("192.0.2.1"), connect("192.0.2.9"), connect("192.0.2.1"), connect("192.0.2.1")
		for _, c := range []*connection{asks, known} {
			c.setState(http.StateActive)
		}
		authenticate(withConnection(t.Context(), known), "")
		time.Sleep(anonymousIdle + time.Second)
		synctest.Wait()
		if there(silent) || !there(asks) || !there(known) || !there(proxy) {
			t.Errorf("silent %v, serving %v, known %v, proxy %v", there(silent), there(asks), there(known), there(proxy))
		}
		for _, c := range []*connection{asks, known} {
			c.setState(http.StateIdle)
		}
		time.Sleep(anonymousIdle - time.Second)
		if synctest.Wait(); !there(asks) {
			t.Error("gone before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if there(asks) || !there(known) || !there(proxy) || len(l.from) != 1 {
			t.Errorf("asked %v, known %v, proxy %v, %v", there(asks), there(known), there(proxy), l.from)
		}
		_ = known.Close()
		_ = known.Close()
		_ = proxy.Close()
		if len(l.all)+len(l.from) != 0 {
			t.Errorf("left are %v %v", l.all, l.from)
		}
	})
}

// TestIdleAnonymousHTTP2: a connection with streams is idle when the server reports it; a token on one stream
// authenticates the connection.
func TestIdleAnonymousHTTP2(t *testing.T) {
	lent := httptest.NewTLSServer(nil)
	defer lent.Close()
	keys := newTokenSet()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := serveOn(t, l, keys, ServeOptions{MaxConnections: 3, TLS: &tls.Config{Certificates: lent.TLS.Certificates}})
	client := func() *http.Client {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	var dialled atomic.Int64
	operator := client()
	operator.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	ask := func(c *http.Client, token string) (status int) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+"/api/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			with(token)(r)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.ProtoMajor != 2 {
			t.Fatal(answer.Proto)
		}
		return answer.StatusCode
	}
	for i := range 10 {
		if got := ask(operator, keys.secrets[Operator]); got != 200 {
			t.Errorf("%d: %d", i, got)
		}
		if got := ask(client(), ""); got != 401 {
			t.Errorf("anonymous %d: %d", i, got)
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("the operator's connection was closed %d times", n-1)
	}
}

// ailing is a listener that fails a few times, as without free descriptors.
type failingListener struct {
	net.Listener
	fail []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.fail) > 0 {
		err := l.fail[0]
		l.fail = l.fail[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

// exhausted is a listener that has ended.
type exhausted struct{ net.Listener }

func (exhausted) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// TestAcceptGoesOn: errors of accept neither end the server nor loop without a pause, and the server can be stopped
// meanwhile.
func TestAcceptGoesOn(t *testing.T) {
	keys := newTokenSet()
	fail := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO}
	began := time.Now()
	address := serveOn(t, &failingListener{loopback(t), fail}, keys, ServeOptions{})
	if status, err := get(t, dial(t, address), keys.secrets[Viewer]); status != "200" {
		t.Error(status, err)
	}
	if took := time.Since(began); took < 63*acceptLeast {
		t.Errorf("six errors within %v", took)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(&failingListener{fail: []error{syscall.EMFILE}, Listener: exhausted{}}, ServeOptions{})
		server, _ := net.Pipe()
		l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || len(l.all) != 0 {
			t.Errorf("%v, and %d anonymous connections keep their descriptors", err, len(l.all))
		}
	})
	endless := make([]error, 1000)
	for i := range endless {
		endless[i] = syscall.EMFILE
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, &failingListener{loopback(t), endless}, http.NotFoundHandler(), ServeOptions{})
	}()
	time.AfterFunc(100*time.Millisecond, stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAddressEvictsIdle: an address that has its share, all authenticated, gets a new connection for an idle one.
func TestAddressEvictsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 64})
		connect := func(from string) *connection {
			server, _ := net.Pipe()
			c, _ := l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.ParseIP(from)}})
			if c != nil {
				c.setState(http.StateActive)
				authenticate(withConnection(t.Context(), c), "")
			}
			return c
		}
		other := connect("192.0.2.2")
		other.setState(http.StateIdle)
		var all []*connection
		for range 16 {
			all = append(all, connect("192.0.2.1"))
		}
		time.Sleep(evictableIdle)
		if c := connect("192.0.2.1"); c != nil {
			t.Error("a connection beyond the share, while all are being answered")
		}
		all[3].setState(http.StateIdle)
		time.Sleep(evictableIdle)
		c := connect("192.0.2.1")
		_, has := l.all[other]
		if _, in := l.all[all[3]]; c == nil || in || !has || len(l.all) != 17 {
			t.Errorf("%v, the idle one is there: %v, another address's: %v, of %d", c, in, has, len(l.all))
		}
		for c := range l.all {
			_ = c.Close()
		}
	})
}

// TestIdleAuthenticatedIsEvicted: when all are authenticated, an idle connection is evicted for a new one, and none
// with a request under way.
func TestIdleAuthenticatedIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 2})
		var ends sync.WaitGroup
		connect := func() *connection {
			server, there := net.Pipe()
			ends.Go(func() { _, _ = io.Copy(io.Discard, there) })
			c, wait := l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			if wait > 0 {
				t.Errorf("it waits for %v", wait)
			}
			return c
		}
		a, b := connect(), connect()
		for _, c := range []*connection{a, b} {
			c.setState(http.StateActive)
			authenticate(withConnection(t.Context(), c), "")
		}
		a.setState(http.StateIdle)
		time.Sleep(evictableIdle)
		a.setState(http.StateActive)
		if c := connect(); c != nil {
			t.Error("a connection beyond the bound, while all are being answered")
		}
		b.setState(http.StateIdle)
		if c := connect(); c != nil {
			t.Error("it takes the place of one that was answered right now")
		}
		time.Sleep(evictableIdle)
		c := connect()
		if _, in := l.all[b]; c == nil || in || len(l.all) != 2 {
			t.Errorf("%v, %v, %d", c, in, len(l.all))
		}
		_, _ = a.Close(), c.Close()
		ends.Wait()
	})
}

// TestTokenShare: a token has a share of the connections, with requests under way or not; its next connection evicts
// its oldest; others are not delayed.
func TestTokenShare(t *testing.T) {
	keys := newTokenSet()
	address := serveOn(t, loopback(t), keys, ServeOptions{MaxConnections: 48})
	var streams []net.Conn
	for range 20 {
		conn := dial(t, address)
		if _, err := fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", keys.secrets[Viewer]); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatal(line, err)
		}
		streams = append(streams, conn)
	}
	for i, conn := range streams {
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := io.Copy(io.Discard, conn)
		if gone := !errors.Is(err, os.ErrDeadlineExceeded); gone != (i < 8) {
			t.Errorf("stream %d is gone: %v, %v", i, gone, err)
		}
	}
	if status, err := get(t, dial(t, address), keys.secrets[Operator]); status != "200" {
		t.Errorf("another token: %s %v", status, err)
	}
	if status, err := get(t, dial(t, address), keys.secrets[Viewer]); status != "200" {
		t.Errorf("the token itself: %s %v", status, err)
	}
}

// TestAnonymousPlacesAreReserved: a connection that authenticates when all authenticated places are taken evicts one of
// those, not an idle anonymous one.
func TestAnonymousPlacesAreReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 16})
		connect := func(party string) *connection {
			server, _ := net.Pipe()
			c, _ := l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			c.setState(http.StateActive)
			if party != "" {
				authenticate(withConnection(t.Context(), c), party)
			}
			return c
		}
		anonymous := connect("")
		for i := range l.mostAuthenticated() {
			connect([]string{"a", "b"}[i%2])
		}
		anonymous.setState(http.StateIdle)
		time.Sleep(evictableIdle)
		connect("c")
		if _, in := l.all[anonymous]; !in || l.authenticated != l.mostAuthenticated() || l.of["c"] != 1 {
			t.Errorf("anonymous: %v, %d of %d authenticated: %v", in, l.authenticated, l.mostAuthenticated(), l.of)
		}
		for c := range l.all {
			_ = c.Close()
		}
	})
}

// TestNewTokenGetsIn: when tokens hold all that they may, with requests under way, anonymous connections are accepted,
// and so is a token that has none.
func TestNewTokenGetsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 64})
		connect := func(party string) *connection {
			server, _ := net.Pipe()
			c, wait := l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			if wait > 0 {
				time.Sleep(wait)
				c, _ = l.admit(fakeAddressConn{server, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			}
			if c != nil && party != "" {
				c.setState(http.StateActive)
				authenticate(withConnection(t.Context(), c), party)
			}
			return c
		}
		for i := range 20 {
			for _, party := range []string{"a", "b", "c", "d"} {
				if c := connect(party); c == nil {
					t.Errorf("connection %d of %s was closed", i, party)
				}
			}
		}
		if l.authenticated != 56 || len(l.all) > 64 {
			t.Errorf("%d are known, of %d", l.authenticated, len(l.all))
		}
		for range 10 {
			if c := connect(""); c == nil {
				t.Error("an anonymous connection was closed")
			}
		}
		if c := connect("e"); c == nil || !c.authenticated || l.of["e"] != 1 || l.authenticated != 56 {
			t.Errorf("another token: %v, of %v", c, l.of)
		}
		for c := range l.all {
			_ = c.Close()
		}
		if l.authenticated != 0 || len(l.of) != 0 {
			t.Errorf("left are %d, %v", l.authenticated, l.of)
		}
	})
}
