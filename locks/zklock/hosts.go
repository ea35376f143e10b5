package zklock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// lookupLimit bounds how long names are resolved.
const lookupLimit = 3 * time.Second

// hosts are the addresses of an ensemble, in turn: the library's HostProvider. Unlike its own ones
// it knows the name behind each address, which is what a certificate is issued for.
type hosts struct {
	mu      sync.Mutex
	addrs   []string          // ip:port
	names   map[string]string // ip:port -> host name
	current int
	last    int // where the turn began: the address that last let us in, or the first
}

// Init resolves the names, once for the session.
func (h *hosts) Init(servers []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	names := map[string]string{}
	var addrs []string
	for _, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			return err
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return err
		}
		for _, ip := range found {
			addr := net.JoinHostPort(ip, port)
			addrs, names[addr] = append(addrs, addr), host
		}
	}
	if len(addrs) == 0 {
		return fmt.Errorf("no address for %q", servers)
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] }) // clients spread
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addrs, h.names, h.current, h.last = addrs, names, -1, -1
	return nil
}

// Len is how many addresses there are.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.addrs)
}

// Next returns the address to try now; retry says that all were tried in vain.
func (h *hosts) Next() (addr string, retry bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = (h.current + 1) % len(h.addrs)
	retry = h.current == h.last
	if h.last < 0 {
		h.last = 0
	}
	return h.addrs[h.current], retry
}

// Connected says that the current address let us in.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = h.current
}

// name is the host behind an address of Next.
func (h *hosts) name(addr string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[addr]
}
