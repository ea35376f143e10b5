package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// healthcheck of replicas in each state. It sends no token, and accepts any certificate of this machine.
func TestHealthcheck(t *testing.T) {
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "":
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Path == "/healthz":
			w.WriteHeader(http.StatusOK)
		case r.URL.Path == "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("the store is\x1b away"))
		default:
			http.Redirect(w, r, "/healthz", http.StatusFound)
		}
	})
	plain, secret := httptest.NewServer(answers), httptest.NewTLSServer(answers)
	defer plain.Close()
	defer secret.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()

	for _, c := range []struct {
		server string
		more   []string
		code   int
		says   string
	}{
		{plain.URL, nil, exitFine, ""},
		{plain.URL + "/", nil, exitFine, ""},
		{secret.URL, nil, exitFine, ""},
		{plain.URL, []string{"--ready"}, exitFailed, "503 Service Unavailable: the store is\\x1b away"},
		{"http://" + gone.Addr().String(), nil, exitFailed, "connection refused"},
		{strings.Replace(secret.URL, "https", "http", 1), nil, exitFailed, "400 Bad Request"},
		{"ftp://127.0.0.1", nil, exitUsage, "is not a URL such as"},
	} {
		environ := []string{"LOCKSTEP_SERVER=" + c.server, "LOCKSTEP_API_TOKEN=secret"}
		r := call(t, environ, append([]string{"healthcheck"}, c.more...)...)
		if r.code != c.code || r.stdout != "" || !strings.Contains(r.stderr, c.says) || c.says == "" && r.stderr != "" {
			t.Errorf("%s %v: %+v", c.server, c.more, r)
		}
	}
	// On other machines the certificate is verified.
	if isLoopback("10.0.0.1") || isLoopback("localhost.example.com") || !isLoopback("::1") || !isLoopback("127.9.9.9") || !isLoopback("localhost") {
		t.Error("isLoopback is wrong")
	}
}
