package zklock

import (
	"testing"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	h := &hosts{}
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
		t.Error("nobody says that all were tried")
	}
	h.Connected()
	for range n - 1 {
		if _, retry := h.Next(); retry {
			t.Error("not all were tried since the last connection")
		}
	}
	if _, retry := h.Next(); !retry {
		t.Error("nobody says that all were tried since the last connection")
	}
	for _, wrong := range []string{"nowhere.invalid:1", "no-port"} {
		if err := h.Init([]string{wrong}); err == nil {
			t.Errorf("%s was resolved", wrong)
		}
	}
}
