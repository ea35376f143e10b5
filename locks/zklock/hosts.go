package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
)

const (
	// lookupLimit bounds how long names are resolved.
	lookupLimit = 3 * time.Second
	// lookupRest is how long the others may still take once one is resolved: one server is enough to open a
	// session.
	lookupRest = time.Second
)

// hosts are the addresses of an ensemble, in turn: the library's HostProvider. Unlike the library's own it
// knows the name of each address, for which a certificate is issued. After Init the library's one goroutine that
// connects, and dials, calls all methods.
type hosts struct {
	resolve func(ctx context.Context, host string) (ips []string, err error)

	addrs   []string          // ip:port
	names   map[string]string // ip:port -> host name
	current int
	last    int // start of the round: the address of the last connection, or the first
}

// reachable is what is wrong with the servers, as far as that is visible in them.
func reachable(servers []string) error {
	if len(servers) == 0 {
		return errors.New("zklock: New: no servers")
	}
	for _, server := range servers {
		if strings.ContainsAny(server, "/,") {
			return fmt.Errorf("zklock: New: %q is not one server, host:port; a path (chroot) belongs into Options.Root", server)
		}
	}
	return nil
}

// elsewhere is the first server that is not on loopback; "" for none.
func elsewhere(servers []string) string {
	for _, server := range servers {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			host = server
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return server
		}
	}
	return ""
}

func newHosts() *hosts { return &hosts{resolve: net.DefaultResolver.LookupHost} }

// Init resolves the names, once for the session. It fails only if no server has an address: a name may be
// unknown while its server is down.
func (h *hosts) Init(servers []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	found := make([]map[string]string, len(servers))
	var first sync.Once
	var rest *time.Timer
	over := make(chan struct{})
	errs := calls.Each(len(servers), len(servers), func(i int) (err error) {
		if found[i], err = h.lookup(ctx, servers[i]); err == nil {
			first.Do(func() {
				rest = time.AfterFunc(lookupRest, func() { defer close(over); cancel() })
			})
		}
		return err
	})
	if rest != nil && !rest.Stop() {
		<-over
	}
	names := map[string]string{}
	for _, f := range found {
		maps.Copy(names, f)
	}
	if len(names) == 0 {
		return cmp.Or(errors.Join(errs...), fmt.Errorf("no address for %q", servers))
	}
	addrs := slices.Collect(maps.Keys(names))
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] }) // clients spread
	h.addrs, h.names, h.current, h.last = addrs, names, -1, -1
	return nil
}

// lookup returns the addresses of one server, each with its name.
func (h *hosts) lookup(ctx context.Context, server string) (map[string]string, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	ips, err := h.resolve(ctx, host)
	names := map[string]string{}
	for _, ip := range ips {
		names[net.JoinHostPort(ip, port)] = host
	}
	return names, err
}

// Len is how many addresses there are.
func (h *hosts) Len() int { return len(h.addrs) }

// Next returns the address to try now; retry says that all have failed.
func (h *hosts) Next() (addr string, retry bool) {
	h.current = (h.current + 1) % len(h.addrs)
	retry = h.current == h.last
	if h.last < 0 {
		h.last = 0
	}
	return h.addrs[h.current], retry
}

// Connected says that the current address has connected.
func (h *hosts) Connected() { h.last = h.current }

// name is the host behind an address of Next.
func (h *hosts) name(addr string) string { return h.names[addr] }
