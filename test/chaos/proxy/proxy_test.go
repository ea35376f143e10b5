package proxy_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// edge is an edge to a server that echoes, and a connection over it.
func edge(t *testing.T) (*proxy.Proxy, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	p, err := proxy.Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		l.Close()
		serving.Wait()
	})
	return p, dial(t, p)
}

func dial(t *testing.T, p *proxy.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// echo sends text and returns what comes back of it within a while.
func echo(t *testing.T, conn net.Conn, text string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	return hear(t, conn, len(text), within)
}

func hear(t *testing.T, conn net.Conn, n int, within time.Duration) (string, error) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, n)
	got, err := io.ReadFull(conn, answer)
	return string(answer[:got]), err
}

const (
	plenty = 10 * time.Second
	little = 100 * time.Millisecond // nothing comes within it
)

func wantSilence(t *testing.T, answer string, err error) {
	t.Helper()
	if timeout := net.Error(nil); answer != "" || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%q, %v; want silence", answer, err)
	}
}

// wantReset holds that a new connection is reset, be it before or after the client has noticed it.
func wantReset(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer conn.Close()
		_, err = hear(t, conn, 1, plenty)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want a reset", err)
	}
}

func TestPass(t *testing.T) {
	p, conn := edge(t)
	sent := make([]byte, 1<<20)
	_, _ = rand.Read(sent)
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _ = conn.Write(sent)
		_ = conn.CloseWrite()
	})
	got, err := io.ReadAll(conn)
	sending.Wait()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes came back: %v", len(got), len(sent), err)
	}
	if c := p.Counts(); c.Accepted != 1 || c.Up != 1<<20 || c.Down != 1<<20 || c.Lost+c.Held != 0 {
		t.Errorf("%+v", c)
	}
}

// What a partition held back arrives when it has healed, as TCP sends it again.
func TestHold(t *testing.T) {
	for name, fault := range map[string]proxy.Fault{"black hole": proxy.BlackHole, "one way": proxy.OneWay} {
		t.Run(name, func(t *testing.T) {
			p, conn := edge(t)
			p.Set(fault)
			answer, err := echo(t, conn, "hello", little)
			wantSilence(t, answer, err)
			if reached := p.Counts().Up > 0; reached != (name == "one way") {
				t.Errorf("reached the server: %t", reached)
			}
			later := dial(t, p) // it seems to work
			answer, err = echo(t, later, "later", little)
			wantSilence(t, answer, err)
			p.Set(proxy.Fault{})
			for conn, want := range map[net.Conn]string{conn: "hello", later: "later"} {
				if answer, err := hear(t, conn, 5, plenty); err != nil || answer != want {
					t.Errorf("%q, %v; want %s", answer, err, want)
				}
			}
			if p.Counts().Held < 10 {
				t.Errorf("%+v", p.Counts())
			}
		})
	}
}

// What the server answered is lost for good, and the connection is of no use afterwards.
func TestLoseReplies(t *testing.T) {
	p, conn := edge(t)
	p.Set(proxy.LoseReplies)
	answer, err := echo(t, conn, "hello", little)
	wantSilence(t, answer, err)
	if c := p.Counts(); c.Up != 5 || c.Lost != 5 || c.Down != 0 {
		t.Errorf("%+v", c)
	}
	p.Set(proxy.Fault{})
	if answer, err := hear(t, conn, 1, plenty); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v; want a reset", answer, err)
	}
	if answer, err := echo(t, dial(t, p), "again", plenty); err != nil || answer != "again" {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestResets(t *testing.T) {
	p, conn := edge(t)
	if _, err := echo(t, conn, "hello", plenty); err != nil {
		t.Fatal(err)
	}
	p.Set(proxy.Resets)
	if _, err := hear(t, conn, 1, plenty); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want a reset", err)
	}
	wantReset(t, p)
	if c := p.Counts(); c.Reset != 2 {
		t.Errorf("%+v", c)
	}
}

func TestSlow(t *testing.T) {
	p, conn := edge(t)
	p.Set(proxy.Slow(50*time.Millisecond, 50*time.Millisecond))
	began := time.Now()
	if answer, err := echo(t, conn, "hello", plenty); err != nil || answer != "hello" || time.Since(began) < 100*time.Millisecond {
		t.Errorf("%q, %v after %v", answer, err, time.Since(began))
	}
	p.Set(proxy.Fault{Up: proxy.Lane{BytesPerSecond: 10_000}})
	began = time.Now()
	text := string(bytes.Repeat([]byte("x"), 2000))
	if answer, err := echo(t, conn, text, plenty); err != nil || answer != text || time.Since(began) < 200*time.Millisecond {
		t.Errorf("%d bytes, %v after %v", len(answer), err, time.Since(began))
	}
}

// Tap sees each byte, before it is passed on.
func TestTap(t *testing.T) {
	p, conn := edge(t)
	var mu sync.Mutex
	seen, wait := map[bool]string{}, make(chan struct{})
	p.Tap(func(n int, up bool, bytes []byte) {
		if !up {
			<-wait
		}
		mu.Lock()
		defer mu.Unlock()
		seen[up] += string(bytes)
	})
	answer, err := echo(t, conn, "hello", little)
	wantSilence(t, answer, err)
	close(wait)
	if answer, err := hear(t, conn, 5, plenty); err != nil || answer != "hello" {
		t.Errorf("%q, %v", answer, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if seen[true] != "hello" || seen[false] != "hello" {
		t.Errorf("%v", seen)
	}
}

// A server that is not there looks as it does without the edge, and closing ends what is held.
func TestNoServerBehind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := l.Addr().String()
	l.Close()
	p, err := proxy.Listen(target)
	if err != nil {
		t.Fatal(err)
	}
	wantReset(t, p)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	p, conn := edge(t)
	p.Set(proxy.BlackHole)
	answer, err := echo(t, conn, "hello", little)
	wantSilence(t, answer, err)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := hear(t, conn, 1, plenty); err == nil {
		t.Error("something came over a closed edge")
	}
}
