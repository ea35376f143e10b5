package httphandler

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A name that resolves to a forbidden address is refused at the connection, each time anew.
func TestNamesAreCheckedWhereTheyLead(t *testing.T) {
	leadsTo := resolve(t)
	leadsTo(netip.MustParseAddr("169.254.169.254"))
	h, err := New(Request{URL: "http://rebound.test/latest/meta-data"})
	if err != nil {
		t.Fatal(err)
	}
	err = h.Run(t.Context(), jobs.Task{}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the address 169.254.169.254 is refused: link-local") {
		t.Errorf("got %v", err)
	}
	leadsTo(netip.MustParseAddr("127.0.0.1"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	defer served.Wait()
	defer server.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if h, err = New(Request{URL: "http://rebound.test:" + port}); err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context(), jobs.Task{}, io.Discard); err != nil {
		t.Errorf("a good address: %v", err)
	}
}

// resolve makes all names of this process lead to one IPv4 address, by a name server of its own.
// What it returns sets the address.
func resolve(t *testing.T) func(netip.Addr) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var to atomic.Pointer[netip.Addr]
	var served sync.WaitGroup
	served.Go(func() {
		for buf := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			// Header and question come back; the extension behind them does not.
			end := 12
			for buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			end += 5
			answer := append([]byte{}, buf[:min(end, n)]...)
			copy(answer[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
			if answer[end-3] == 1 { // asked for an A record
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, to.Load().AsSlice()...)
			}
			_, _ = conn.WriteTo(answer, from)
		}
	})
	old := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = old
		conn.Close()
		served.Wait()
	})
	return func(addr netip.Addr) { to.Store(&addr) }
}

// A want of descriptors is distinguished from errors that a retry would not help.
func TestNoRoom(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.EMFILE: true, syscall.ENFILE: true,
		syscall.EAGAIN: false, syscall.ENOMEM: false, syscall.ENOENT: false, syscall.EACCES: false, syscall.ECONNREFUSED: false,
	} {
		for _, err := range []error{
			os.NewSyscallError("socket", errno),
			&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)},
			&fs.PathError{Op: "open", Path: "/etc/resolv.conf", Err: errno},
		} {
			if noRoom(err) != want {
				t.Errorf("%v: %v", err, !want)
			}
		}
	}
	if noRoom(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "name.test", IsNotFound: true}}) {
		t.Error("a name that does not exist")
	}
}

func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	if transport.Proxy != nil {
		t.Error("the transport asks the environment for a proxy")
	}
}
