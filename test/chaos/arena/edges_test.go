//go:build linux

package arena

import (
	"bufio"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
)

// One address has an edge for each owner: a fault of one does not affect the others, and a connection without an owner
// is refused.
func TestHub(t *testing.T) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := conn.Write(append(lines.Bytes(), '\n')); err != nil {
						return
					}
				}
			}()
		}
	}()
	var owner atomic.Value // of this process
	h, err := newHub(server.Addr().String(), proxy.Listen, []string{"a", "b"}, func() map[int]string {
		if owner.Load() == nil {
			return nil
		}
		return map[int]string{1: "b", os.Getpid(): owner.Load().(string)} // process 1 has not opened it
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}()
	if answers(h) {
		t.Error("a connection without an owner passed")
	}
	owner.Store("a")
	if !answers(h) {
		t.Error("no answer over the edge of a")
	}
	h.edges["b"].Set(proxy.Resets)
	if !answers(h) {
		t.Error("what broke b's edge broke a's")
	}
	h.edges["a"].Set(proxy.Resets)
	if answers(h) {
		t.Error("an answer over a broken edge")
	}
}

func answers(h *hub) bool {
	conn, err := net.Dial("tcp4", h.addr())
	if err != nil {
		return false // the reset may come before connect has returned
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && line == "hello\n"
}
