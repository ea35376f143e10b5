//go:build linux

package arena

import (
	"fmt"
	"net"
	"testing"
)

// The kernel's answer for one connection agrees with its table, and is empty for a missing one.
func TestSocketOf(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	local, remote := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	want, err := listed(local, remote)
	if err != nil {
		t.Fatal(err)
	}
	inode, err := diagnose(local, remote)
	if err != nil {
		t.Logf("this kernel does not say: %v", err)
	} else if got := fmt.Sprintf("socket:[%d]", inode); got != want {
		t.Errorf("%s, the table says %s", got, want)
	}
	if inode, err := diagnose(local, &net.TCPAddr{IP: remote.IP, Port: 1}); err == nil {
		t.Errorf("a missing connection is %d", inode)
	}
}
