package httphandler

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// transport is shared by all handlers. It sends one request and looks at no redirect. How many requests run
// at once is bounded by the workers of the pools, so it is not bounded here; connections are kept for as many,
// since a burst of thousands of tasks to one host would otherwise use up the machine's ports.
var transport = &http.Transport{
	Proxy:               nil, // whoever sets HTTP_PROXY does not decide where jobs go
	DialContext:         dial,
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
