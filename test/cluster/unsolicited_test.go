package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A server sends bytes after its response, with its request's secrets. The log has none of them.
func TestNothingBehindAnAnswerIsInTheLog(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{}, 100) // the replica saw what came, and closed the connection
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				read := bufio.NewReader(conn)
				request, err := http.ReadRequest(read)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 404 no %s\r\n\r\n", request.RequestURI)
				if _, err := read.ReadByte(); err == io.EOF {
					left <- struct{}{}
				}
			})
		}
	})
	t.Cleanup(served.Wait)
	t.Cleanup(func() { listener.Close() })
	config := filepath.Join(t.TempDir(), "lockstep.yaml")
	text := fmt.Sprintf("version: 1\njobs:\n  asks: {schedule: \"* * * * * *\", http: {url: \"http://%s/x?key=CANARY-query\"}}\n", listener.Addr())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, config, "r1")
	for range 2 {
		select {
		case <-left:
		case <-time.After(30 * time.Second):
			t.Fatal("no connection was closed")
		}
	}
	r.Drain(t, 30*time.Second)
	if log := r.Log(); strings.Contains(log, "CANARY") || strings.Contains(log, "Unsolicited") {
		t.Error(log)
	}
}
