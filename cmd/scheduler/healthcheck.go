package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout bounds the whole check.
const healthTimeout = 5 * time.Second

func newHealthcheckCommand(a *app) *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Check that a replica is alive, for images without shell and curl",
		Long: "Check that the replica at --server is alive, or with --ready that it starts new work. The exit code is 0 if so, else 1.\n" +
			"It reads no file and sends no token. The certificate of a replica on this machine is not verified.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			return checkHealth(ctx, a.server(), path)
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "check that it starts new work")
	return cmd
}

// checkHealth is nil if the replica at base answers 200 at path.
func checkHealth(ctx context.Context, base, path string) error {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usagef("--server: %q is not a URL such as http://127.0.0.1:8080", base)
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: isLoopback(u.Hostname())}
	c := http.Client{
		Transport:     &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	u.Path, u.RawPath = path, ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return usagef("--server: %v", err)
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 4096)) // the status suffices
	return fmt.Errorf("%s answers %s: %s", u, res.Status, text)
}

// isLoopback reports whether host is this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
