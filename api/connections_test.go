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
func serveOn(t *testing.T, l net.Listener, keys bunch, o ServeOptions) (address string) {
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

// get asks over a connection for a list of jobs, and returns the status line.
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

// open reports whether the other end has not closed a connection on which nothing is to come.
func open(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	defer func() { _ = conn.SetReadDeadline(time.Now().Add(20 * time.Second)) }()
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestStrangersHoldUpEachOther: however many connections strangers hold, who has a token gets in, stays in,
// and the number is bounded.
func TestStrangersHoldUpEachOther(t *testing.T) {
	keys := newBunch()
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
	var strangers []net.Conn
	began := time.Now()
	for range 30 {
		strangers = append(strangers, dial(t, address))
	}
	await.Until(t, "the first ones are gone", func() bool { return !open(strangers[20]) && !open(refused) })
	if took := time.Since(began); took < 2*anonymousSilence {
		t.Errorf("21 strangers have had no more than %v", took)
	}
	left := 0
	for _, conn := range strangers {
		if open(conn) {
			left++
		}
	}
	if left != 9 || !open(strangers[29]) {
		t.Errorf("%d strangers are left of 30, the latest: %v", left, open(strangers[29]))
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
	for _, conn := range strangers {
		conn.Close()
	}
	await.Until(t, "there is room again", func() bool {
		conn := dial(t, address)
		defer conn.Close()
		status, _ := get(t, conn, "")
		return status == "401" && open(conn)
	})
}

// pretended is a listener whose connections come from wherever a test says.
type pretended struct {
	net.Listener
	from atomic.Pointer[net.TCPAddr]
}

type pretendedConn struct {
	net.Conn
	from *net.TCPAddr
}

func (l *pretended) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return pretendedConn{conn, l.from.Load()}, nil
}

func (c pretendedConn) RemoteAddr() net.Addr { return c.from }

// TestOneAddressHasAPart: one address, or network of IPv6, cannot take the places of others; trusted proxies
// and this machine can have all, as many come from there.
func TestOneAddressHasAPart(t *testing.T) {
	t.Parallel()
	l := &pretended{Listener: loopback(t)}
	address := serveOn(t, l, newBunch(), ServeOptions{MaxConnections: 64, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
	var all []net.Conn
	come := func(n int, from ...string) (conns []net.Conn) {
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
	other := come(1, "192.0.2.7")
	v4, v6 := come(40, "192.0.2.1"), come(40, "2001:db8::1", "2001:db8::2", "2001:db8::ffff:3")
	if a, b := left(v4), left(v6); a != 16 || b != 16 || !open(other[0]) {
		t.Errorf("%d and %d of 40 are left, want 16; the other one: %v", a, b, open(other[0]))
	}
	for _, conn := range all {
		conn.Close()
	}
	for _, from := range []string{"127.0.0.1", "10.9.8.7"} {
		await.Until(t, "all have gone", func() bool { return len(come(1, from)) == 1 && left(come(50, from)) == 50 })
		for _, conn := range all {
			conn.Close()
		}
	}
}

// TestIdleStrangers: a connection without a good token ends after a while, with HTTP/2 too; one with a token
// stays, and so does a trusted proxy's.
func TestIdleStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}})
		defer close(l.closing)
		go l.expire()
		come := func(from string) *connection {
			here, _ := net.Pipe()
			c, _ := l.admit(pretendedConn{here, &net.TCPAddr{IP: net.ParseIP(from)}})
			return c
		}
		there := func(c *connection) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			_, in := l.all[c]
			return in
		}
		silent, proxy, asks, known := come("192.0.2.1"), come("192.0.2.9"), come("192.0.2.1"), come("192.0.2.1")
		for _, c := range []*connection{asks, known} {
			c.turned(http.StateActive)
		}
		authenticate(withConnection(t.Context(), known), "")
		time.Sleep(anonymousIdle + time.Second)
		synctest.Wait()
		if there(silent) || !there(asks) || !there(known) || !there(proxy) {
			t.Errorf("silent %v, serving %v, known %v, proxy %v", there(silent), there(asks), there(known), there(proxy))
		}
		for _, c := range []*connection{asks, known} {
			c.turned(http.StateIdle)
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

// TestIdleStrangersOfHTTP2: the server says when a connection with streams is idle, and a token on one
// stream is one for the connection.
func TestIdleStrangersOfHTTP2(t *testing.T) {
	lent := httptest.NewTLSServer(nil)
	defer lent.Close()
	keys := newBunch()
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
			t.Errorf("stranger %d: %d", i, got)
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("the operator's connection was closed %d times", n-1)
	}
}

// ailing is a listener that fails a few times, as where no descriptor is left.
type ailing struct {
	net.Listener
	fail []error
}

func (l *ailing) Accept() (net.Conn, error) {
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

// TestAcceptGoesOn: what keeps the system from giving a connection ends neither the server nor is asked
// for in a loop, and the server can be stopped meanwhile.
func TestAcceptGoesOn(t *testing.T) {
	keys := newBunch()
	fail := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO}
	began := time.Now()
	address := serveOn(t, &ailing{loopback(t), fail}, keys, ServeOptions{})
	if status, err := get(t, dial(t, address), keys.secrets[Viewer]); status != "200" {
		t.Error(status, err)
	}
	if took := time.Since(began); took < 63*acceptLeast {
		t.Errorf("six errors within %v", took)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(&ailing{fail: []error{syscall.EMFILE}, Listener: exhausted{}}, ServeOptions{})
		here, _ := net.Pipe()
		l.admit(pretendedConn{here, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || len(l.all) != 0 {
			t.Errorf("%v, and %d strangers keep their descriptors", err, len(l.all))
		}
	})
	endless := make([]error, 1000)
	for i := range endless {
		endless[i] = syscall.EMFILE
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, &ailing{loopback(t), endless}, http.NotFoundHandler(), ServeOptions{}) }()
	time.AfterFunc(100*time.Millisecond, stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAnAddressMakesRoom: an address that has its share, all with a token, gets another connection for one that is idle.
func TestAnAddressMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 64})
		come := func(from string) *connection {
			here, _ := net.Pipe()
			c, _ := l.admit(pretendedConn{here, &net.TCPAddr{IP: net.ParseIP(from)}})
			if c != nil {
				c.turned(http.StateActive)
				authenticate(withConnection(t.Context(), c), "")
			}
			return c
		}
		other := come("192.0.2.2")
		other.turned(http.StateIdle)
		var all []*connection
		for range 16 {
			all = append(all, come("192.0.2.1"))
		}
		time.Sleep(evictableIdle)
		if c := come("192.0.2.1"); c != nil {
			t.Error("a connection beyond the share, while all are being answered")
		}
		all[3].turned(http.StateIdle)
		time.Sleep(evictableIdle)
		c := come("192.0.2.1")
		_, has := l.all[other]
		if _, in := l.all[all[3]]; c == nil || in || !has || len(l.all) != 17 {
			t.Errorf("%v, the idle one is there: %v, another address's: %v, of %d", c, in, has, len(l.all))
		}
		for c := range l.all {
			_ = c.Close()
		}
	})
}

// TestSpareConnections: where all have a token, one that lies idle goes for a new one, and none that is
// being answered.
func TestSpareConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 2})
		var ends sync.WaitGroup
		come := func() *connection {
			here, there := net.Pipe()
			ends.Go(func() { _, _ = io.Copy(io.Discard, there) })
			c, wait := l.admit(pretendedConn{here, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			if wait > 0 {
				t.Errorf("it waits for %v", wait)
			}
			return c
		}
		a, b := come(), come()
		for _, c := range []*connection{a, b} {
			c.turned(http.StateActive)
			authenticate(withConnection(t.Context(), c), "")
		}
		a.turned(http.StateIdle)
		time.Sleep(evictableIdle)
		a.turned(http.StateActive)
		if c := come(); c != nil {
			t.Error("a connection beyond the bound, while all are being answered")
		}
		b.turned(http.StateIdle)
		if c := come(); c != nil {
			t.Error("it takes the place of one that was answered right now")
		}
		time.Sleep(evictableIdle)
		c := come()
		if _, in := l.all[b]; c == nil || in || len(l.all) != 2 {
			t.Errorf("%v, %v, %d", c, in, len(l.all))
		}
		_, _ = a.Close(), c.Close()
		ends.Wait()
	})
}

// TestOneTokenHasAPart: a token has a part of the connections, also of those that are being answered, and its oldest
// goes for its next; others are not held up.
func TestOneTokenHasAPart(t *testing.T) {
	keys := newBunch()
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

// TestAStrangerIsNotSpare: who shows a token while as many are known as may be takes the place of one of them, and not that
// of a stranger who is idle: places are kept for strangers.
func TestAStrangerIsNotSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 16})
		come := func(party string) *connection {
			here, _ := net.Pipe()
			c, _ := l.admit(pretendedConn{here, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			c.turned(http.StateActive)
			if party != "" {
				authenticate(withConnection(t.Context(), c), party)
			}
			return c
		}
		stranger := come("")
		for i := range l.mostAuthenticated() {
			come([]string{"a", "b"}[i%2])
		}
		stranger.turned(http.StateIdle)
		time.Sleep(evictableIdle)
		come("c")
		if _, in := l.all[stranger]; !in || l.authenticated != l.mostAuthenticated() || l.of["c"] != 1 {
			t.Errorf("the stranger is there: %v, %d of %d are known: %v", in, l.authenticated, l.mostAuthenticated(), l.of)
		}
		for c := range l.all {
			_ = c.Close()
		}
	})
}

// TestNewcomersGetIn: however many tokens hold all that they may, on connections that are being answered, strangers get
// in, and so does a token that has none.
func TestNewcomersGetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, ServeOptions{MaxConnections: 64})
		come := func(party string) *connection {
			here, _ := net.Pipe()
			c, wait := l.admit(pretendedConn{here, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			if wait > 0 {
				time.Sleep(wait)
				c, _ = l.admit(pretendedConn{here, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
			}
			if c != nil && party != "" {
				c.turned(http.StateActive)
				authenticate(withConnection(t.Context(), c), party)
			}
			return c
		}
		for i := range 20 {
			for _, party := range []string{"a", "b", "c", "d"} {
				if c := come(party); c == nil {
					t.Errorf("connection %d of %s was closed", i, party)
				}
			}
		}
		if l.authenticated != 56 || len(l.all) > 64 {
			t.Errorf("%d are known, of %d", l.authenticated, len(l.all))
		}
		for range 10 {
			if c := come(""); c == nil {
				t.Error("a stranger was closed")
			}
		}
		if c := come("e"); c == nil || !c.authenticated || l.of["e"] != 1 || l.authenticated != 56 {
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
