package httphandler_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// echoes starts a server that answers each request with what answer makes of its path and query, byte for
// byte, and closes the connection.
func echoes(t *testing.T, answer func(target string) string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				request, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				_, _ = io.WriteString(conn, answer(request.RequestURI))
			})
		}
	})
	t.Cleanup(served.Wait)
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String()
}

// A server may say what it was asked for wherever it likes: nothing of that shows.
func TestWhatTheURLHasInSecretIsNotRepeated(t *testing.T) {
	const path, query = "/services/T0CANARY/B0CANARY%2Fx", "token=CANARY%20one&page=1"
	answers := map[string]func(target string) string{
		"reason phrase": func(at string) string { return "HTTP/1.1 404 no " + at + "\r\nContent-Length: 0\r\n\r\n" },
		"redirect": func(at string) string {
			return "HTTP/1.1 302 Found\r\nLocation: " + at + "/\r\nContent-Length: 0\r\n\r\n"
		},
		"redirect to another": func(at string) string {
			return "HTTP/1.1 302 Found\r\nLocation: https://CANARY@elsewhere.example" + at + "\r\nContent-Length: 0\r\n\r\n"
		},
		"redirect that cannot be read": func(at string) string {
			return "HTTP/1.1 302 Found\r\nLocation: http://[" + at + "\r\nContent-Length: 0\r\n\r\n"
		},
		"status": func(at string) string { return "HTTP/1.1 " + at + "\r\n\r\n" },
		"no HTTP": func(at string) string {
			return "what is " + at + "\r\n\r\n"
		},
		"header": func(at string) string { return "HTTP/1.1 200 OK\r\n" + at + "\r\n\r\n" },
		"answer": func(at string) string { return sized("refused: " + at) },
		"its parts": func(string) string {
			return sized(`{"error": "no team T0CANARY, no B0CANARY\/x, no B0CANARY%2Fx, no token CANARY one or CANARY%20one"}`)
		},
		"slashes of JSON": func(at string) string { return sized(strings.ReplaceAll(at, "/", `\/`)) },
		"HTML":            func(at string) string { return sized(strings.ReplaceAll(at, "&", "&amp;")) },
		"end of 64 KiB": func(at string) string {
			return sized(strings.Repeat("x", httphandler.MaxOutput-20) + at + strings.Repeat("y", 200))
		},
		"beyond 64 KiB, made shorter": func(at string) string { return sized(strings.Repeat(at+" ", 3000)) },
		"broken off": func(at string) string {
			return "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + at[:len(at)-2]
		},
	}
	for where, answer := range answers {
		at := echoes(t, answer)
		out, err := run(t, httphandler.Request{URL: at + path + "?" + query, SecretPath: true}, task)
		if said := fmt.Sprintf("%v\n%s", err, out); strings.Contains(said, "CANARY") {
			t.Errorf("%s: %.2000s", where, said)
		} else if !strings.Contains(said, "…") && !strings.Contains(said, "[cut here") {
			t.Errorf("%s: the test shows nothing: %.300s", where, said)
		}
		shown, err := run(t, httphandler.Request{URL: at + path + "?" + query}, task)
		if said := fmt.Sprintf("%v\n%s", err, shown); strings.Contains(said, "CANARY%20") || strings.Contains(said, "CANARY one") || strings.Contains(said, "page=1") {
			t.Errorf("%s: the query of an http job: %.2000s", where, said)
		}
		if len(out) > httphandler.MaxOutput {
			t.Errorf("%s: %d bytes of output", where, len(out))
		}
	}
	_, err := run(t, httphandler.Request{URL: echoes(t, answers["redirect to another"]) + path, SecretPath: true}, task)
	if err == nil || !strings.Contains(err.Error(), `302 Found to "https://elsewhere.example"; redirects`) {
		t.Errorf("got %v", err)
	}
	// What is no secret stays as it is.
	out, err := run(t, httphandler.Request{URL: echoes(t, answers["answer"]) + "/mail", Timeout: 20 * time.Second}, task)
	if err != nil || out != "refused: /mail" {
		t.Errorf("got %q, %v", out, err)
	}
}

func sized(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
