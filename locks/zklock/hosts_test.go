package zklock

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	h := newHosts()
	if err := h.Init([]string{"localhost:1", "127.0.0.1:2", "[::1]:3"}); err != nil {
		t.Fatal(err)
	}
	n := h.Len()
	if n < 3 {
		t.Fatalf("%d addresses", n)
	}
	seen := map[string]string{}
	for i := range n {
		addr, retry := h.Next()
		if retry && i > 0 {
			t.Errorf("all were tried after %d of %d", i, n)
		}
		seen[addr] = h.name(addr)
	}
	if seen["127.0.0.1:1"] != "localhost" && seen["[::1]:1"] != "localhost" || seen["127.0.0.1:2"] != "127.0.0.1" || seen["[::1]:3"] != "::1" {
		t.Errorf("names: %v", seen)
	}
	if _, retry := h.Next(); !retry {
		t.Error("retry is not reported")
	}
	h.Next()
	h.Connected() // not to the one that came first
	for range n - 1 {
		if _, retry := h.Next(); retry {
			t.Error("not all were tried since the last connection")
		}
	}
	if _, retry := h.Next(); !retry {
		t.Error("retry is not reported since the last connection")
	}
}

// Clients spread over the servers.
func TestHostsInAnyOrder(t *testing.T) {
	t.Parallel()
	first := map[string]int{}
	for range 600 {
		h := newHosts()
		if err := h.Init([]string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}); err != nil {
			t.Fatal(err)
		}
		addr, _ := h.Next()
		first[addr]++
	}
	for addr, n := range first {
		if n < 120 || n > 280 {
			t.Errorf("%s came first %d times of 600, want about 200", addr, n)
		}
	}
}

// A server whose name is not known, as that of a pod that is not ready, leaves the others.
func TestHostsThatDoNotResolve(t *testing.T) {
	t.Parallel()
	h := newHosts()
	if err := h.Init([]string{"nowhere.invalid:1", "127.0.0.1:2", "nobody.invalid:3"}); err != nil {
		t.Fatal(err)
	}
	if addr, _ := h.Next(); h.Len() != 1 || addr != "127.0.0.1:2" {
		t.Errorf("%d addresses, %s first", h.Len(), addr)
	}
	err := h.Init([]string{"nowhere.invalid:1", "nobody.invalid:3"})
	if err == nil || !strings.Contains(err.Error(), "nowhere.invalid") || !strings.Contains(err.Error(), "nobody.invalid") {
		t.Errorf("%v, want it to name both", err)
	}
	if err := h.Init([]string{"no-port"}); err == nil {
		t.Error("a server without a port was taken")
	}
}

// A name server that does not answer holds up a session for a second where another server has an address, and else for as
// long as the limit says: a server that is wrongly written does not count.
func TestHostsThatResolveSlowly(t *testing.T) {
	for first, want := range map[string]time.Duration{"127.0.0.1:2": lookupRest, "no-port": lookupLimit} {
		synctest.Test(t, func(t *testing.T) {
			h, began := newHosts(), time.Now()
			known := h.resolve
			h.resolve = func(ctx context.Context, host string) ([]string, error) {
				if host != "slow" {
					return known(ctx, host)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			err := h.Init([]string{first, "slow:1"})
			if took := time.Since(began); took != want || (err == nil) != (want == lookupRest) {
				t.Errorf("beside %s it takes %v, want %v: %v", first, took, want, err)
			}
		})
	}
}
