//go:build linux

package arena

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerOf is the value of the process that opened a connection from this machine; empty: none of them.
func ownerOf(client *net.TCPConn, owners map[int]string) string {
	socket, err := socketOf(client)
	if err != nil {
		return ""
	}
	for pid, owner := range owners {
		folder := fmt.Sprintf("/proc/%d/fd", pid)
		entries, _ := os.ReadDir(folder) // it may have ended
		for _, entry := range entries {
			if to, _ := os.Readlink(filepath.Join(folder, entry.Name())); to == socket {
				return owner
			}
		}
	}
	return ""
}

// socketOf is the kernel's name of the client's end: "socket:[inode]". The kernel is asked for this one
// connection: the table of all has thousands, with every connection of the last minute.
func socketOf(client *net.TCPConn) (string, error) {
	local, remote := client.RemoteAddr().(*net.TCPAddr), client.LocalAddr().(*net.TCPAddr)
	if inode, err := diagnose(local, remote); err == nil {
		return fmt.Sprintf("socket:[%d]", inode), nil
	}
	return listed(local, remote) // a kernel without an answer, or the connection is closed
}

// diagnose asks the kernel for the inode of a socket of this machine (sock_diag(7)).
func diagnose(local, remote *net.TCPAddr) (inode uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	host := binary.NativeEndian
	ask := host.AppendUint32(nil, 72)
	ask = host.AppendUint16(ask, unix.SOCK_DIAG_BY_FAMILY)
	ask = host.AppendUint16(ask, unix.NLM_F_REQUEST)
	ask = append(ask, make([]byte, 8)...)                         // sequence, port
	ask = append(ask, unix.AF_INET, unix.IPPROTO_TCP, 0, 0)       // no extensions
	ask = host.AppendUint32(ask, ^uint32(0))                      // any state
	ask = binary.BigEndian.AppendUint16(ask, uint16(local.Port))  //nolint:gosec // a port
	ask = binary.BigEndian.AppendUint16(ask, uint16(remote.Port)) //nolint:gosec // a port
	for _, ip := range []net.IP{local.IP, remote.IP} {
		ask = append(append(ask, ip.To4()...), make([]byte, 12)...)
	}
	ask = append(host.AppendUint32(ask, 0), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // any interface, no cookie
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	const at = 16 + 4 + 48 + 16 // behind the header, state, addresses, and four counts
	if n < at+4 || host.Uint16(answer[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return 0, errors.New("the kernel does not know the socket")
	}
	return host.Uint32(answer[at:]), nil
}

// listed reads the inode of a socket from the table of all.
func listed(local, remote *net.TCPAddr) (string, error) {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer table.Close()
	from, to := kernelAddr(local), kernelAddr(remote)
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 9 && f[1] == from && f[2] == to {
			return "socket:[" + f[9] + "]", nil
		}
	}
	return "", errors.New("the connection is gone")
}

// kernelAddr is a loopback address as /proc/net/tcp writes it.
func kernelAddr(a *net.TCPAddr) string { return fmt.Sprintf("0100007F:%04X", a.Port) }
