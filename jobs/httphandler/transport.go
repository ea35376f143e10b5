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

// transport is shared by all handlers. It sends one request and follows no redirect. The workers of the pools
// bound the requests at a time, so it has no limit; connections are kept for as many, since a burst of
// thousands of tasks to one host would otherwise use up the machine's ports.
var transport = newTransport()

func newTransport() *http.Transport {
	transport := &http.Transport{
		Proxy:               nil, // HTTP_PROXY does not redirect jobs
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // the bytes received are the bytes counted
		MaxIdleConns:        2048,
		MaxIdleConnsPerHost: 512,
		// Servers close idle connections after 5 s and more; a request on a closed connection has to fail, as
		// it may have been read.
		IdleConnTimeout:        3 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if noRoom(err) {
			transport.CloseIdleConnections() // their descriptors are needed, the connections are not
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
		// Control gets the address itself, whatever the name resolved to.
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

// noRoom reports whether a connection failed for want of descriptors. A resolver does not report that, so it is
// tried.
func noRoom(err error) bool {
	if lookup := (*net.DNSError)(nil); errors.As(err, &lookup) {
		var probe net.PacketConn
		if probe, err = net.ListenPacket("udp", "127.0.0.1:0"); err == nil {
			_ = probe.Close()
		}
	}
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
