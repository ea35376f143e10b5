package linear

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// ways lead one client to the servers of a service, over a proxy for each of them, also to servers that it
// learns of later.
type ways struct {
	t *testing.T

	mu     sync.Mutex
	edges  map[string]*proxy.Proxy // by server
	told   map[string]int64        // bytes that each server had been sent when the busiest was last asked for
	fault  proxy.Fault             // of all of them
	breaks int
	closed bool
}

func newWays(t *testing.T) *ways {
	w := &ways{t: t, edges: map[string]*proxy.Proxy{}, told: map[string]int64{}}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = true
		for _, edge := range w.edges {
			_ = edge.Close()
		}
	})
	return w
}

// to is where the client reaches a server.
func (w *ways) to(server string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	edge := w.edges[server]
	if edge == nil && !w.closed {
		var err error
		if edge, err = proxy.Listen(server); err != nil {
			w.t.Error(err)
			return "127.0.0.1:0"
		}
		edge.Set(w.fault)
		w.edges[server] = edge
	}
	if edge == nil {
		return "127.0.0.1:0"
	}
	return edge.Addr()
}

// dial is for clients that ask for a server by its own address.
func (w *ways) dial(ctx context.Context, network, server string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, w.to(server))
}

// disturb breaks all connections, and every other time only those to the server that the client uses.
func (w *ways) disturb(f proxy.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaks++
	if len(w.edges) > 1 && w.breaks%2 == 0 {
		w.edges[w.busiest()].Set(f)
		return
	}
	w.all(f)
}

func (w *ways) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all(proxy.Fault{})
}

func (w *ways) all(f proxy.Fault) {
	w.fault = f
	for _, edge := range w.edges {
		edge.Set(f)
	}
}

// busiest is the server with the most bytes from the client since the last call.
func (w *ways) busiest() (server string) {
	most := int64(-1)
	for s, edge := range w.edges {
		up := edge.Counts().Up
		if more := up - w.told[s]; more > most {
			server, most = s, more
		}
		w.told[s] = up
	}
	return server
}

// met adds up what the edges did.
func (w *ways) met() (sum proxy.Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, edge := range w.edges {
		sum = sum.Add(edge.Counts())
	}
	return sum
}
