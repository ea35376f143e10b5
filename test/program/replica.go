package program

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// URL waits until a replica is ready, and returns the address of its API. The test fails at once if
// that takes longer than 30 s, or if the process ends.
func (p *Process) URL(t testing.TB) (url string) {
	t.Helper()
	Within(t, 30*time.Second, "the replica is ready", func() bool {
		if p.Ended(0) {
			t.Fatalf("%v ended at once: %v", p.Cmd.Args, p.Cmd.ProcessState)
		}
		url = p.listening()
		return url != "" && ready(url)
	})
	return url
}

// listening is the address in the log of the replica; "" if there is none yet.
func (p *Process) listening() string {
	for line := range strings.Lines(p.Log()) {
		var record struct{ Msg, URL string }
		if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "listening" {
			return record.URL
		}
	}
	return ""
}

// ready asks a replica on this machine, with any certificate.
func ready(url string) bool {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	answer, err := c.Get(url + "/readyz")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Within waits until ok, and fails the test at once if that takes longer than limit.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
