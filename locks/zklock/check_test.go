package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Check says what Open would, and makes nothing.
func TestCheck(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	op := operator(t, addr)
	openAs(t, addr, "prod", Options{Root: "/check-owned", Auth: alice})
	openAs(t, addr, "prod", Options{Root: "/check-open"})
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nothing is there yet": {Options{Root: "/check-new", Auth: alice}, ""},
		"below a node":         {Options{Root: "/check-new/below"}, ""},
		"its own":              {Options{Root: "/check-owned", Auth: alice}, ""},
		"open to all":          {Options{Root: "/check-open"}, ""},
		"the ensemble's root":  {Options{Root: "/"}, ""},
		"another password":     {Options{Root: "/check-owned", Auth: "alice:tr0ub4dor"}, `the nodes below /check-owned belong to another user of ZooKeeper than "alice"`},
		"no user":              {Options{Root: "/check-owned"}, "no user is given"},
		"from before a login":  {Options{Root: "/check-open", Auth: alice}, "every client can change /check-open"},
		"no login at all":      {Options{Auth: "hunter2"}, "user:password"},
	} {
		err := New([]string{addr}, c.o).Check(t.Context())
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "tr0ub4dor")):
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if there, _, err := op.Exists("/check-new"); there || err != nil {
		t.Errorf("the check has made the root: %t, %v", there, err)
	}
	if children, _, err := op.Children("/check-open/prod/sessions"); err != nil || len(children) != 1 {
		t.Errorf("sessions %v, %v", children, err)
	}
}

func TestCheckOfNoServer(t *testing.T) {
	t.Parallel()
	if err := New(nil, Options{}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no servers") {
		t.Error(err)
	}
	began := time.Now()
	err := New([]string{"127.0.0.1:1"}, Options{}).Check(t.Context())
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "127.0.0.1:1") || time.Since(began) > 4*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New([]string{servers.ZooKeeper(t)}, Options{}).Check(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Check asks for the session timeout that is set.
func TestCheckAsksForTheTimeout(t *testing.T) {
	t.Parallel()
	for set, want := range map[time.Duration]time.Duration{0: checkTimeout, -1: checkTimeout, 7 * time.Second: 7 * time.Second} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan time.Duration, 1)
		go func() {
			defer cancel()
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			var request [20]byte // length, version of the protocol, last zxid, timeout
			if _, err := io.ReadFull(conn, request[:]); err == nil {
				asked <- time.Duration(binary.BigEndian.Uint32(request[16:])) * time.Millisecond
			}
		}()
		if err := New([]string{l.Addr().String()}, Options{SessionTimeout: set}).Check(ctx); err == nil {
			t.Error("no server, and no error")
		}
		<-ctx.Done()
		select {
		case got := <-asked:
			if got != want {
				t.Errorf("set to %v it asks for %v, want %v", set, got, want)
			}
		default:
			t.Errorf("set to %v it asks for nothing", set)
		}
	}
}
