package httphandler

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// client is shared by all handlers. How many requests run at once is bounded by the workers of the
// pools, so it is not bounded here; connections are kept for as many, since a burst of thousands of
// tasks to one host would otherwise use up the machine's ports.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{
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
	},
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

var (
	translated = netip.MustParsePrefix("64:ff9b::/96") // IPv4 behind NAT64
	sixToFour  = netip.MustParsePrefix("2002::/16")
	thisNet    = netip.MustParsePrefix("0.0.0.0/8")
	reserved   = netip.MustParsePrefix("240.0.0.0/4") // broadcast included
	// metadata are the services of clouds whose addresses are not link-local.
	metadata = []netip.Addr{
		netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"),
		netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
	}
)

// forbidden says why no job may connect to an address; empty if it may. Private addresses and this
// machine are fine: that is where most jobs go.
func forbidden(addr netip.Addr) string {
	addr = embedded(addr.Unmap().WithZone(""))
	switch {
	case addr.IsLinkLocalUnicast():
		return "link-local, where clouds keep credentials"
	case addr.IsMulticast():
		return "multicast"
	case addr.IsUnspecified() || thisNet.Contains(addr):
		return "unspecified"
	case reserved.Contains(addr):
		return "reserved"
	case slices.Contains(metadata, addr):
		return "a cloud's metadata service"
	}
	return ""
}

// embedded returns the IPv4 address that an IPv6 one leads to, or addr itself.
func embedded(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	switch {
	case translated.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return addr
}
