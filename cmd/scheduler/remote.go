package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// maxToken bounds a token file, in bytes.
const maxToken = 64 << 10

// call makes a command of do, with a client of the replica at --server.
func (a *app) call(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.remote()
		if err != nil {
			return err
		}
		return a.explain(do(cmd.Context(), c, args))
	}
}

// remote returns a client of the replica at --server, with the token of LOCKSTEP_API_TOKEN or LOCKSTEP_API_TOKEN_FILE.
func (a *app) remote() (*client.Client, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	settings, err := a.tls()
	if err != nil {
		return nil, err
	}
	server := a.server()
	if u, err := url.Parse(server); err == nil && token != "" && u.Scheme == "http" && !isLoopback(u.Hostname()) && !a.insecure {
		return nil, usagef("--server: the token would be sent to %s in plain text; write https://%s, or add --insecure if the network is private", server, u.Host)
	}
	c, err := client.New(server, client.Options{Token: token, TLS: settings})
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	return c, nil
}

// token returns the token, if any. No error contains it.
func (a *app) token() (string, error) {
	token, _ := a.env("LOCKSTEP_API_TOKEN")
	from := "LOCKSTEP_API_TOKEN"
	if file, ok := a.env("LOCKSTEP_API_TOKEN_FILE"); ok && file != "" && token == "" {
		from = "LOCKSTEP_API_TOKEN_FILE"
		read, err := trustedfile.Rule{Limit: maxToken, Secret: true, Handed: true}.Read(file)
		if err != nil {
			return "", usagef("%s: %w", from, err)
		}
		if exposed := read.Exposed(); exposed != "" {
			fmt.Fprintf(a.stderr, "warning: %s %s; chmod 600 %s\n", file, exposed, file)
		}
		token = strings.TrimSpace(string(read.Data))
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usagef("%s: not a token; a token is one word, as 'scheduler token create' prints it", from)
	}
	return token, nil
}

// tls returns the settings with the authorities of --ca-file; nil: the system's.
func (a *app) tls() (*tls.Config, error) {
	file, from := a.caFlag, "--ca-file"
	if file == "" {
		file, _ = a.env("LOCKSTEP_CA_FILE")
		from = "LOCKSTEP_CA_FILE"
	}
	if file == "" {
		return nil, nil
	}
	read, err := trustedfile.Rule{Limit: maxPEM, Handed: true}.Read(file)
	if err != nil {
		return nil, usagef("%s: %w", from, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(read.Data) {
		return nil, usagef("%s: %s holds no certificate in PEM form", from, file)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

// withScheme completes host:port. Only loopback gets http: a token must not leave this machine in plain text.
func withScheme(server string) string {
	if server == "" || strings.Contains(server, "://") {
		return server
	}
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = strings.Trim(server, "[]")
	}
	if isLoopback(host) {
		return "http://" + server
	}
	return "https://" + server
}

// explain adds advice to the error of a request.
func (a *app) explain(err error) error {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	answer, _ := errors.AsType[*client.Error](err)
	switch {
	case answer != nil && answer.Force != "" && a.serverFlag != "": // the command in the message is for the same replica
		answer.Message = strings.ReplaceAll(answer.Message, ": scheduler ", ": scheduler --server "+a.serverFlag+" ")
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w\nStart a replica with 'scheduler serve', or name a running one with --server URL or LOCKSTEP_SERVER", err)
	case errors.Is(err, context.DeadlineExceeded): // after a connection was made
		return fmt.Errorf("%s did not answer in time (%w)\nIt may be frozen or overloaded; name another replica with --server URL or LOCKSTEP_SERVER", a.server(), err)
	case unknown:
		return fmt.Errorf("%w\nName the authority that signed the replica's certificate with --ca-file FILE or LOCKSTEP_CA_FILE", err)
	case answer != nil && answer.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w\nGive a token with LOCKSTEP_API_TOKEN_FILE or LOCKSTEP_API_TOKEN; 'scheduler token create' makes one", err)
	case answer != nil && answer.Status == http.StatusBadRequest && answer.Code == "unknown" && strings.HasPrefix(a.server(), "http://"):
		return fmt.Errorf("%w\nIt may want TLS: --server https://%s", err, strings.TrimPrefix(a.server(), "http://"))
	}
	return err
}

func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(subs...)
	return cmd
}
