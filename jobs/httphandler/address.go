package httphandler

import (
	"bytes"
	"net/netip"
	"slices"
)

var (
	thisNet  = netip.MustParsePrefix("0.0.0.0/8")   // :: leads there
	reserved = netip.MustParsePrefix("240.0.0.0/4") // broadcast included
	// metadata are the services of clouds whose addresses are not link-local.
	metadata = []netip.Prefix{
		netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::254/128"), netip.MustParsePrefix("100.100.100.200/32"),
		netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("192.0.0.192/32"),
	}
)

// forbidden says why no job may connect to an address; empty if it may. Private addresses and this machine are
// allowed: most jobs go there. An IPv6 address counts as each IPv4 address that a gateway may make of it.
func forbidden(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	certain, possible := embedded(addr)
	if why := refused(addr); why != "" {
		return why
	}
	for _, inner := range certain {
		if why := refused(inner); why != "" {
			return why
		}
	}
	for _, inner := range possible {
		if why := secretive(inner); why != "" {
			return why
		}
	}
	return ""
}

func refused(addr netip.Addr) string {
	switch {
	case addr.IsMulticast():
		return "multicast"
	case thisNet.Contains(addr):
		return "unspecified"
	case reserved.Contains(addr):
		return "reserved"
	}
	return secretive(addr)
}

// secretive says that an address answers with credentials.
func secretive(addr netip.Addr) string {
	switch {
	case addr.IsLinkLocalUnicast():
		return "link-local, where clouds keep credentials"
	case slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(addr) }):
		return "a cloud's metadata service"
	}
	return ""
}

var (
	compatible = netip.MustParsePrefix("::/96")
	stateless  = netip.MustParsePrefix("::ffff:0:0:0/96") // IPv4-translated, RFC 7915
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215: a network says how long its prefix is
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// embedded returns the IPv4 addresses of an IPv6 one. possible are those that it stands for if its network uses
// a prefix of that length (RFC 6052).
func embedded(addr netip.Addr) (certain, possible []netip.Addr) {
	if addr.IsLoopback() {
		return nil, nil
	}
	b := addr.As16()
	at := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	last := at(12, 13, 14, 15)
	switch {
	case compatible.Contains(addr), stateless.Contains(addr), nat64.Contains(addr):
		return []netip.Addr{last}, nil
	case localNAT64.Contains(addr):
		return nil, []netip.Addr{at(6, 7, 9, 10), at(7, 9, 10, 11), at(9, 10, 11, 12), last}
	case sixToFour.Contains(addr):
		return []netip.Addr{at(2, 3, 4, 5)}, nil
	case teredo.Contains(addr):
		client := [4]byte{^b[12], ^b[13], ^b[14], ^b[15]}
		return []netip.Addr{at(4, 5, 6, 7), netip.AddrFrom4(client)}, nil
	case bytes.Equal(b[9:12], []byte{0, 0x5e, 0xfe}) && b[8]&^2 == 0: // ISATAP, RFC 5214
		return []netip.Addr{last}, nil
	}
	return nil, nil
}
