package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// A replica's API asks for what its own replica has ready.
var (
	_ api.Defined    = (*scheduler.Scheduler)(nil)
	_ api.Namespaced = (*scheduler.Scheduler)(nil)
)

// apiServer is the network side of the API: tokens, certificate, limits of connections.
type apiServer struct {
	settings    config.Server
	tokens      *api.Tokens  // nil: no authentication
	cert        *certificate // nil: no TLS
	files       []*reloader
	descriptors descriptors // zero: unknown
	log         *slog.Logger
}

// newAPIServer reads the tokens and the certificate that c names. An address that is reachable without protection is
// logged as "insecure".
func newAPIServer(c config.Server, log *slog.Logger) (*apiServer, error) {
	s := &apiServer{settings: c, log: log}
	if c.TokensFile != "" {
		s.tokens = &api.Tokens{}
		read := func() ([][]byte, error) {
			data, err := config.ReadTokens(c.TokensFile)
			return [][]byte{data}, err
		}
		f := &reloader{what: "tokens", log: log, read: read, load: func(contents [][]byte) error {
			list, err := config.ParseTokens(c.TokensFile, contents[0])
			if err == nil {
				s.tokens.Replace(list)
			}
			return err
		}, revoke: func() { s.tokens.Replace(nil) }}
		if err := f.first(); err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
	}
	if c.CertFile != "" {
		s.cert = &certificate{certFile: c.CertFile, keyFile: c.KeyFile, log: log}
		f := &reloader{what: "certificate", log: log, read: s.cert.read, load: s.cert.load}
		if err := f.first(); err != nil {
			return nil, fmt.Errorf("server.tls: %w", err)
		}
		s.files = append(s.files, f)
	}
	if exposed := c.Exposed(); exposed != "" {
		log.Warn("insecure", "why", exposed, "listen", c.Listen)
	}
	return s, nil
}

// checkAPIServer reads the files that newAPIServer would read, unless one is missing on this machine: replicas may run
// elsewhere. expiry describes a certificate that expires.
func checkAPIServer(c config.Server) (missing []string, expiry string, err error) {
	for _, path := range []string{c.TokensFile, c.CertFile, c.KeyFile} {
		if _, err := os.Stat(path); path != "" && errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, path)
		}
	}
	if missing != nil {
		return missing, "", nil
	}
	s, err := newAPIServer(c, slog.New(slog.DiscardHandler))
	if err != nil || s.cert == nil {
		return nil, "", err
	}
	if why := s.cert.expiry(); why != "" {
		expiry = fmt.Sprintf("server.tls: the certificate %s %s", c.CertFile, why)
	}
	return nil, expiry, nil
}

// configure sets access, hosts, proxies and conditions of the API.
func (s *apiServer) configure(o *api.Options) {
	if s.tokens != nil {
		o.Access = s.tokens
	}
	o.Hosts = s.settings.Hosts
	own, _, _ := net.SplitHostPort(s.settings.Listen)
	if _, err := netip.ParseAddr(own); err != nil && own != "" { // a name
		o.Hosts = append(slices.Clone(o.Hosts), own)
	}
	o.TrustedProxies, o.Conditions = s.settings.TrustedProxies, s.conditions
}

// reload loads the tokens and the certificate now, if they have changed. Errors: jobs.ErrInvalid with all that keeps one of them from
// being loaded; its previous content applies then.
func (s *apiServer) reload() error {
	var all []error
	for _, f := range s.files {
		f.poll()
		if revoked, err := f.status(); err != nil {
			all = append(all, fmt.Errorf("%s: %w; %s", f.what, err, inForce(revoked)))
		}
	}
	if all == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", jobs.ErrInvalid, errors.Join(all...))
}

// conditions describe access in readiness; the replica stays ready. "insecure: …" means that access is not restricted.
func (s *apiServer) conditions() []wire.Condition {
	detail := s.settings.Exposed()
	if detail != "" {
		detail = "insecure: " + detail
	} else {
		detail = "this machine only"
		if !s.settings.Private() {
			detail = "TLS"
		}
		if s.tokens != nil {
			detail += fmt.Sprintf(", tokens: %d", s.tokens.Len())
		}
	}
	all := append([]wire.Condition{{Name: "access", Ready: true, Detail: detail}}, s.descriptors.conditions()...)
	for _, f := range s.files {
		if revoked, err := f.status(); err != nil {
			all = append(all, wire.Condition{Name: f.what, Ready: true, Detail: inForce(revoked) + ": " + oneLine(err)})
		}
	}
	if s.cert != nil {
		if soon := s.cert.expiry(); soon != "" {
			all = append(all, wire.Condition{Name: "certificate", Ready: true, Detail: soon})
		}
	}
	return all
}

// withWeak adds a condition for weak connections to the store and to the lock service.
func withWeak(conditions func() []wire.Condition, weak []string) func() []wire.Condition {
	c := wire.Condition{Name: "connections", Ready: true, Detail: "insecure: " + strings.Join(weak, "; ")}
	return func() []wire.Condition { return append(conditions(), c) }
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// serve serves the API until ctx is done, and reloads the files when they change.
func (s *apiServer) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	ctx, stop := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	defer reloads.Wait()
	defer stop()
	for _, f := range s.files {
		reloads.Go(func() { f.run(ctx) })
	}
	o := api.ServeOptions{MaxConnections: s.descriptors.connections(), TrustedProxies: s.settings.TrustedProxies, Logger: s.log}
	if s.cert != nil {
		reloads.Go(func() { s.cert.remind(ctx) })
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.cert.get}
	}
	return api.Serve(ctx, l, h, o)
}

// url is the API's address, as far as this replica can tell.
func (s *apiServer) url(l net.Listener) string {
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
		if len(s.settings.Hosts) > 0 {
			host = s.settings.Hosts[0]
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
