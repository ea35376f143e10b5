package arena

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// hub is the one address that all replicas have for a server: the product takes different addresses
// for different servers. Each connection goes over the edge of the replica that opened it.
type hub struct {
	listener net.Listener
	edges    map[string]*proxy.Proxy // by replica
	owners   func() map[int]string   // replicas by process id
	working  sync.WaitGroup
}

// newHub opens edges with listen, which knows what the server speaks.
func newHub(target string, listen func(string) (*proxy.Proxy, error), replicas []string, owners func() map[int]string) (*hub, error) {
	h := &hub{edges: map[string]*proxy.Proxy{}, owners: owners}
	for _, id := range replicas {
		edge, err := listen(target)
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.edges[id] = edge
	}
	var err error
	if h.listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.working.Go(h.accept)
	return h, nil
}

func (h *hub) addr() string { return h.listener.Addr().String() }

func (h *hub) accept() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.working.Go(func() {
			client := conn.(*net.TCPConn)
			edge := h.edges[ownerOf(client, h.owners())]
			if edge == nil { // its process is gone
				_ = client.SetLinger(0)
				_ = client.Close()
				return
			}
			edge.Take(client)
		})
	}
}

// close ends every connection.
func (h *hub) close() (err error) {
	if h.listener != nil {
		err = h.listener.Close()
	}
	h.working.Wait()
	for _, edge := range h.edges {
		err = errors.Join(err, edge.Close())
	}
	return err
}

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

// socketOf is how the kernel calls the client's end: "socket:[inode]".
func socketOf(client *net.TCPConn) (string, error) {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer table.Close()
	local, remote := kernelAddr(client.RemoteAddr()), kernelAddr(client.LocalAddr())
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 9 && f[1] == local && f[2] == remote {
			return "socket:[" + f[9] + "]", nil
		}
	}
	return "", errors.New("the connection is gone")
}

// kernelAddr is a loopback address as /proc/net/tcp writes it.
func kernelAddr(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	n, _ := strconv.Atoi(port)
	return fmt.Sprintf("0100007F:%04X", n)
}
