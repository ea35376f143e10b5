//go:build linux

package arena

import (
	"errors"
	"net"
	"sync"

	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// hub is the address of a server for all replicas: the product takes different addresses for different servers.
// Each connection goes over the edge of the replica that opened it.
type hub struct {
	listener net.Listener
	edges    map[string]*proxy.Proxy // by replica
	owners   func() map[int]string   // replicas by process id
	working  sync.WaitGroup
}

// newHub opens edges with listen, which knows the protocol of the server.
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
