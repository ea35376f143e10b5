package proxy

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// A connection that loses bytes just as the fault ends is reset, too: nothing may follow the gap.
func TestLostAsTheFaultEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p.Set(LoseReplies)
	p.mu.Lock()
	var open *pair
	for one := range p.pairs {
		open = one
	}
	p.mu.Unlock()
	p.Set(Fault{}) // after the lane was read, and before what it loses is noted
	open.drop(3)
	if _, err := io.WriteString(server, "what follows"); err != nil {
		t.Log(err) // it is reset already
	}
	if err := client.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	if n, err := client.Read(got); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q, %v; want a reset", got[:n], err)
	}
	if c := p.Counts(); c.Lost != 3 || c.Reset != 1 {
		t.Errorf("%+v", c)
	}
}
