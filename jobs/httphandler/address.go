package httphandler

import (
	"bytes"
	"net/netip"
	"slices"
)

// network is one that no job may connect to.
type network struct {
	netip.Prefix
	why     string
	secrets bool // its addresses answer with credentials
}

const (
	linkLocal = "link-local, where clouds keep credentials"
	metadata  = "a cloud's metadata service"
)

var networks = []network{
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", false},
	{netip.MustParsePrefix("ff00::/8"), "multicast", false},
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified", false}, // :: leads there
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", false},  // broadcast included
	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal, true},
	{netip.MustParsePrefix("fe80::/10"), linkLocal, true},
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata, true},
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata, true},
	{netip.MustParsePrefix("100.100.100.200/32"), metadata, true},
	{netip.MustParsePrefix("168.63.129.16/32"), metadata, true},
	{netip.MustParsePrefix("192.0.0.192/32"), metadata, true},
}

// forbidden says why no job may connect to an address; empty if it may. Private addresses and this machine are
// allowed: most jobs go there. An IPv6 address counts as each IPv4 address that a gateway may make of it.
func forbidden(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	certain, possible := embedded(addr)
	for _, n := range networks {
		within := func(a netip.Addr) bool { return n.Contains(a) }
		if n.Contains(addr) || slices.ContainsFunc(certain, within) || n.secrets && slices.ContainsFunc(possible, within) {
			return n.why
		}
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
