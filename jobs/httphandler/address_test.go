package httphandler

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for address, says := range map[string]string{
		"169.254.169.254": "link-local", "169.254.0.1": "link-local", "::ffff:169.254.169.254": "link-local",
		"::ffff:100.100.100.200": "metadata", "::ffff:0.1.2.3": "unspecified", "::ffff:240.0.0.1": "reserved", "::ffff:127.0.0.1": "", "fd00:ec2::254%eth0": "metadata",
		"fd00::100:5efe:a9fe:a9fe": "", "fd00::200:5eff:a9fe:a9fe": "", "fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"224.0.0.1": "multicast", "239.1.2.3": "multicast", "ff02::1": "multicast",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified",
		"255.255.255.255": "reserved", "240.0.0.1": "reserved",
		"100.100.100.200": "metadata", "168.63.129.16": "metadata", "192.0.0.192": "metadata",
		"fd00:ec2::254": "metadata", "fd00:ec2::23": "metadata", "fd00:ec2:1::1": "metadata", "fd20:ce::254": "metadata",

		"127.0.0.1": "", "::1": "", "10.0.0.1": "", "192.168.1.1": "", "172.16.0.1": "", "93.184.216.34": "",
		"fd00::1": "", "fd00:ec3::254": "", "fd20:ce::253": "", "2606:2800::1": "", "2001:db8::a9fe:a9fe": "",

		// What a gateway or tunnel makes an IPv4 address of.
		"64:ff9b::a9fe:a9fe": "link-local", "64:ff9b::6464:64c8": "metadata", "64:ff9b::": "unspecified", "64:ff9b::5db8:d822": "",
		"64:ff9b:1::a9fe:a9fe": "link-local", "64:ff9b:1:2:3:4:6464:64c8": "metadata", // a prefix of 96 bits,
		"64:ff9b:1:a9fe:a9:fe00::": "link-local", "64:ff9b:1:6464:64:c800::": "metadata", // 48,
		"64:ff9b:1:a9:fe:a9fe::":     "link-local", // 56,
		"64:ff9b:1:0:a9:fea9:fe00::": "link-local", // 64
		"64:ff9b:1::5db8:d822":       "", "64:ff9b:1:5db8:d8:2200::": "", "64:ff9b:1:af0:1:100::": "",
		"2002:a9fe:a9fe::": "link-local", "2002:e000:1::1": "multicast", "2002:5db8:d822::1": "",
		"::a9fe:a9fe": "link-local", "::6464:64c8": "metadata", "::2": "unspecified", "::ffff:ffff": "reserved", "::7f00:1": "", "::5db8:d822": "",
		"::ffff:0:a9fe:a9fe": "link-local", "::ffff:0:5db8:d822": "",
		"2001:0:5db8:d822:0:0:5601:5601": "link-local", "2001:0:a9fe:a9fe:0:0:a247:27dd": "link-local", // Teredo's client, and its server
		"2001:0:5db8:d822:0:0:9b9b:9b37": "metadata", "2001:0:5db8:d822:0:0:a247:27dd": "",
		"2606:2800::5efe:a9fe:a9fe": "link-local", "fd00::200:5efe:a9fe:a9fe": "link-local", "fd00::5efe:a00:1": "", "fd00::105e:fe:a9fe:a9fe": "",
	} {
		why := forbidden(netip.MustParseAddr(address))
		if (why == "") != (says == "") || !strings.Contains(why, says) {
			t.Errorf("%s: %q, want %q", address, why, says)
		}
	}
}
