package main

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/dial"
)

// The holder of stale locks has a driver for each lock service of a cell. No call is made: a driver that is refused only when it
// opens a session would leave a run of an hour without a stale release.
func TestHolderHasADriver(t *testing.T) {
	for _, s := range []dial.Service{
		{Kind: "redis", Addr: "127.0.0.1:1"},
		{Kind: "zookeeper", Addr: "127.0.0.1:1"},
		{Kind: "mysql", Addr: "u@tcp(127.0.0.1:1)/d", Mode: "lease"},
		{Kind: "mysql", Addr: "u@tcp(127.0.0.1:1)/d", Mode: "row"},
		{Kind: "quorum", Addr: "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"},
		{Kind: "sqlite", Addr: "locks.db"},
	} {
		h, err := openHolder(s)
		if err != nil {
			t.Errorf("%+v: %v", s, err)
			continue
		}
		if err := h.driver.Valid(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
		_ = h.close(t.Context())
	}
	if _, err := openHolder(dial.Service{}); err == nil {
		t.Error("there is a holder without a lock service")
	}
}
