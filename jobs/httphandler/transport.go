package httphandler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
)

// transport is shared by all handlers. It sends one request and looks at no redirect. How many requests run
// at once is bounded by the workers of the pools, so it is not bounded here; connections are kept for as many,
// since a burst of thousands of tasks to one host would otherwise use up the machine's ports.
var transport = newTransport()

func newTransport() *http.Transport {
	transport := &http.Transport{
		Proxy:               nil, // whoever sets HTTP_PROXY does not decide where jobs go
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // what comes is what is counted
		MaxIdleConns:        2048,
		MaxIdleConnsPerHost: 512,
		// Servers close idle connections after 5 s and more; a request that meets such an end has
		// to fail, as nobody knows whether it was read.
		IdleConnTimeout:        3 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if noRoom(err) {
			transport.CloseIdleConnections() // they have descriptors, and nobody needs them now
			conn, err = dial(ctx, network, address)
		}
		if noRoom(err) {
			return nil, fmt.Errorf("%w: %w; raise the limit of open files (ulimit -n, LimitNOFILE=), or lower replica.workers", abort.ErrNoRoom, err)
		}
		return conn, err
	}
	return transport
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		Timeout:   10 * time.Second,
		KeepAlive: 30 * time.Second,
		// Control sees the address itself, whatever the name resolved to this time.
		Control: func(_, address string, _ syscall.RawConn) error {
			addr, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if why := forbidden(addr.Addr()); why != "" {
				return fmt.Errorf("the address %v is refused: %s", addr.Addr(), why)
			}
			return nil
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// noRoom reports whether a connection was not made for want of descriptors. A resolver does not pass on
// why it could not ask, so whether there are any is tried.
func noRoom(err error) bool {
	if lookup := (*net.DNSError)(nil); errors.As(err, &lookup) {
		var probe net.PacketConn
		if probe, err = net.ListenPacket("udp", "127.0.0.1:0"); err == nil {
			_ = probe.Close()
		}
	}
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
