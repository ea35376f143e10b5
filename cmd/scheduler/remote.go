package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
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
	c, err := client.New(server, client.Options{Token: token, TLS: settings, Away: a.away})
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	return c, nil
}

// away says that there is no answer to what waits for one, and how long that goes on.
func (a *app) away(err error, left time.Duration) {
	fmt.Fprintf(a.stderr, "No answer yet, it is asked again for %s: %v\n", left.Round(time.Second), err)
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

// listing is a command that fetches a list page by page, and shows one row per item.
type listing[T any] struct {
	short   string
	more    string // after short, in the help
	heading string // one word per column
	fetch   func(*client.Client, context.Context, wire.Page) (wire.List[T], error)
	row     func(T) []string
	note    func([]T) string                             // after the table, on stderr; "": nothing
	also    func(*client.Client, context.Context) string // the same, of what is asked beside
	latest  bool                                         // long: cut at --limit
}

func newListCommand[T any](a *app, l listing[T]) *cobra.Command {
	limit := everything
	cmd := &cobra.Command{
		Use:   "list",
		Short: l.short,
		Long:  l.short + l.more,
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 0 {
				return usagef("--limit %d: must be 0 or more", limit)
			}
			rows, more, err := collect(limit, func(p wire.Page) (wire.List[T], error) { return l.fetch(c, ctx, p) })
			if err != nil {
				return err
			}
			if more {
				fmt.Fprintf(a.stderr, "Only the latest %d are shown; see --limit.\n", limit)
			}
			return a.print(rows, func(w io.Writer) error {
				err := table(w, l.heading, rows, l.row)
				if err == nil && l.note != nil {
					fmt.Fprint(a.stderr, l.note(rows))
				}
				if err == nil && l.also != nil {
					fmt.Fprint(a.stderr, l.also(c, ctx))
				}
				return err
			})
		}),
	}
	if l.latest {
		cmd.Flags().IntVar(&limit, "limit", 50, "show the latest `N`; 0 shows all")
	}
	return cmd
}

// everything is the limit of unbounded lists.
const everything = 0

// collect fetches pages up to limit rows. more reports that there are further ones.
func collect[T any](limit int, fetch func(wire.Page) (wire.List[T], error)) (rows []T, more bool, err error) {
	rows = []T{}
	var p wire.Page
	for {
		p.Limit = 500
		if limit != everything {
			p.Limit = min(limit-len(rows), 500)
		}
		list, err := fetch(p)
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, list.Items...)
		if list.Next == "" || limit != everything && len(rows) >= limit {
			return rows, list.Next != "", nil
		}
		p.Cursor = list.Next
	}
}

// request fetches or changes one thing by its name or id.
type request[T any] = func(*client.Client, context.Context, string) (T, error)

// newOneCommand sends a request, and shows its answer.
func newOneCommand[T any](a *app, use, short string, ask request[T], show func(io.Writer, T) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			answer, err := ask(c, ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(answer, func(w io.Writer) error { return show(w, answer) })
		}),
	}
}

// setting is a command that overrides the configuration of one job or pool, or removes the override.
type setting[T any] struct {
	use, short, long string
	set, reset       request[T]
	message          func(T) string // the new state
}

func newOverrideCommand[T any](a *app, s setting[T]) *cobra.Command {
	var reset bool
	cmd := newOneCommand(a, s.use, s.short, func(c *client.Client, ctx context.Context, name string) (T, error) {
		if reset {
			return s.reset(c, ctx, name)
		}
		return s.set(c, ctx, name)
	}, func(w io.Writer, thing T) error { return textLine(s.message(thing))(w) })
	cmd.Long = s.short + s.long
	cmd.Flags().BoolVar(&reset, "reset", false, "remove the override: the configuration applies again")
	return cmd
}
