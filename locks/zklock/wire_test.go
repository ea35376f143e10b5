package zklock

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// answer is the first answer of a server, as far as it is read.
func answer(timeout time.Duration) []byte {
	b := binary.BigEndian.AppendUint32(nil, 37)
	b = binary.BigEndian.AppendUint32(b, 0)
	return binary.BigEndian.AppendUint32(b, uint32(timeout/time.Millisecond))
}

// The session timeout is what the first answer on a connection says, in however many pieces it comes.
func TestAgreedTimeout(t *testing.T) {
	t.Parallel()
	g := newDialer(10*time.Second, nil)
	hears := func(pieces ...[]byte) time.Duration {
		t.Helper()
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			for _, p := range pieces {
				_, _ = far.Write(p)
			}
		}()
		if _, err := io.Copy(io.Discard, &wire{Conn: near, dialer: g}); err != nil {
			t.Fatal(err)
		}
		timeout, _ := g.state()
		return timeout
	}
	first, second := answer(4*time.Second), answer(9*time.Second)
	if got := hears(first[:11]); got != 10*time.Second {
		t.Errorf("%v after a part of the answer", got)
	}
	if got := hears(first[:3], first[3:10], append(first[10:], second...), second); got != 4*time.Second {
		t.Errorf("agreed on %v", got)
	}
	if got := hears(second); got != 9*time.Second {
		t.Errorf("on the next connection %v", got)
	}
	if got := hears(answer(0)); got != 9*time.Second { // the session has expired
		t.Errorf("after an answer that agrees on nothing %v", got)
	}
}

// deadlines notes what was set.
type deadlines struct {
	net.Conn
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// No call on a connection waits longer than two thirds of the session's timeout.
func TestDeadlinesAreCapped(t *testing.T) {
	t.Parallel()
	d := &deadlines{}
	w := &wire{Conn: d, dialer: newDialer(9*time.Second, nil)}
	for _, c := range []struct{ asked, most time.Duration }{{time.Second, time.Second}, {time.Minute, 6 * time.Second}} {
		began := time.Now()
		_, _ = w.SetReadDeadline(began.Add(c.asked)), w.SetWriteDeadline(began.Add(c.asked))
		late := time.Since(began)
		for what, got := range map[string]time.Duration{"read": d.read.Sub(began), "write": d.write.Sub(began)} {
			if got < c.most || got > c.most+late {
				t.Errorf("%s: %v, want %v for %v", what, got, c.most, c.asked)
			}
		}
	}
	_, _ = w.SetReadDeadline(time.Time{}), w.SetWriteDeadline(time.Time{})
	if !d.read.IsZero() || !d.write.IsZero() {
		t.Errorf("%v, %v, want none", d.read, d.write)
	}
}

// tlsServer accepts connections with a certificate for 127.0.0.1; hello is called before it answers.
func tlsServer(t *testing.T, a *servers.Authority, hello func()) string {
	t.Helper()
	settings := a.TLS(a.Server())
	settings.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		hello()
		return nil, nil
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return l.Addr().String()
}

// A certificate is compared with the name of the server that was dialled, or with the one that is set.
func TestDialWithTLS(t *testing.T) {
	t.Parallel()
	a := servers.NewAuthority(t)
	var hello func()
	addr := tlsServer(t, a, func() {
		if hello != nil {
			hello()
		}
	})
	_, port, _ := strings.Cut(addr, ":")
	for name, c := range map[string]struct{ listed, set, want string }{
		"its address":                         {"127.0.0.1", "", ""},
		"its address under a name":            {"localhost", "", "is for another name"},
		"its address, and the name is set":    {"localhost", "127.0.0.1", ""},
		"its address, and another one is set": {"127.0.0.1", "zookeeper.example", "is for another name"},
	} {
		settings := a.TLS()
		settings.ServerName = c.set
		g := newDialer(ttl, settings)
		if err := g.hosts.Init([]string{net.JoinHostPort(c.listed, port)}); err != nil {
			t.Fatal(err)
		}
		conn, err := g.dial("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if settings.ServerName != c.set {
			t.Errorf("%s: the caller's settings say %q now", name, settings.ServerName)
		}
	}

	// The session ends while a connection is being made.
	g := newDialer(ttl, a.TLS())
	if err := g.hosts.Init([]string{addr}); err != nil {
		t.Fatal(err)
	}
	hello = g.refuse
	if conn, err := g.dial("tcp", addr, time.Second); !errors.Is(err, errShut) {
		t.Errorf("dial: %v, %v; want errShut", conn, err)
	}
}

// Nothing was sent if all addresses have refused, and none has ever let the session in.
func TestHopeless(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := l.Addr().String()
	defer l.Close()
	shut := "127.0.0.1:1"
	for name, c := range map[string]struct {
		dialled []string
		want    bool
	}{
		"one of two refused":      {[]string{shut}, false},
		"both refused":            {[]string{shut, shut}, true},
		"they refuse for long":    {[]string{shut, shut, shut, shut}, true},
		"one has accepted before": {[]string{open, shut, shut, shut}, false},
	} {
		g := newDialer(ttl, nil)
		if err := g.hosts.Init([]string{open, shut}); err != nil {
			t.Fatal(err)
		}
		for _, addr := range c.dialled {
			if conn, err := g.dial("tcp", addr, time.Second); err == nil {
				_ = conn.Close()
			}
		}
		select {
		case <-g.hopeless:
			if _, cause := g.state(); !c.want || cause == nil {
				t.Errorf("%s: given up, because of %v", name, cause)
			}
		default:
			if c.want {
				t.Errorf("%s: not given up", name)
			}
		}
	}
}

// The answer to the last request is known for one however it comes in, whatever comes before it, and though the server
// hangs up behind it. Without it the session was not closed.
func TestTheLastAnswer(t *testing.T) {
	t.Parallel()
	answer := func(number uint32, body int) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(4+body)) //nolint:gosec // small
		return append(binary.BigEndian.AppendUint32(b, number), make([]byte, body)...)
	}
	first := answer(0, 33)
	for name, c := range map[string]struct {
		answers []byte
		closed  bool
	}{
		"it comes":             {slices.Concat(first, answer(7, 12)), true},
		"after others":         {slices.Concat(first, answer(1<<32-2, 12), answer(6, 300), answer(7, 12)), true},
		"another's has it":     {slices.Concat(first, answer(6, 12), binary.BigEndian.AppendUint32(nil, 4), make([]byte, 4)), false},
		"before another":       {slices.Concat(first, answer(7, 12), answer(8, 12)), true},
		"nothing comes":        {first, false},
		"half of it":           {slices.Concat(first, answer(7, 12)[:7]), false},
		"it hangs up at once":  {nil, false},
		"its number elsewhere": {slices.Concat(first, answer(6, 4), []byte{0, 0, 0, 8, 0, 0, 0, 6, 0, 0, 0, 7}), false},
	} {
		for _, size := range []int{1, 3, 512} {
			here, there := net.Pipe()
			g := newDialer(time.Second, nil)
			w := &wire{Conn: here, dialer: g}
			g.wire = w
			go func() {
				_, _ = io.ReadFull(there, make([]byte, 12))
				_, _ = there.Write(c.answers)
				_ = there.Close()
			}()
			if _, err := w.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 7), closeSession)); err != nil {
				t.Fatal(err)
			}
			for buf := make([]byte, size); ; {
				if _, err := w.Read(buf); err != nil {
					break
				}
			}
			if g.closed() != c.closed {
				t.Errorf("%s, read by %d: closed %t, want %t", name, size, g.closed(), c.closed)
			}
		}
	}
}

// Bytes shorter than a request are passed on as they are. A closed dialer closes its connection, if it has one.
func TestADialerIsClosed(t *testing.T) {
	t.Parallel()
	g := newDialer(time.Second, nil)
	if g.closed() {
		t.Error("the session was closed without a connection")
	}
	g.close()
	here, there := net.Pipe()
	g.wire = &wire{Conn: here, dialer: g}
	got := make(chan string, 1)
	_ = there.SetReadDeadline(time.Now().Add(10 * time.Second))
	go func() {
		all, err := io.ReadAll(there)
		if err != nil {
			t.Error(err)
		}
		got <- string(all)
	}()
	if _, err := g.wire.Write([]byte("ruok")); err != nil {
		t.Error(err)
	}
	g.close()
	if sent := <-got; sent != "ruok" {
		t.Errorf("%q arrived before the end", sent)
	}
}

// What the library logs explains a failure: an error without the library's words until there is a session, and not what a dial
// has said already.
func TestWhatIsLogged(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		agreed bool
		arg    any
		want   string
	}{
		"no error":                 {false, "zk1", "log: zk1"},
		"what the dial said":       {false, fmt.Errorf("dial: %w", refused), "refused"},
		"something else":           {false, errors.New("reset"), "reset"},
		"while there is a session": {true, errors.New("reset"), "log: reset"},
	} {
		g := newDialer(ttl, nil)
		g.cause, g.agreed = refused, c.agreed
		g.Printf("log: %v", c.arg)
		if _, cause := g.state(); cause.Error() != c.want {
			t.Errorf("%s: %q, want %q", name, cause, c.want)
		}
	}
}
