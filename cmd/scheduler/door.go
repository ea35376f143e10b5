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
)

// door is where requests come in: who may, and over which certificate.
type door struct {
	settings    config.Server
	tokens      *api.Tokens  // nil: everybody may do everything
	cert        *certificate // nil: no TLS
	files       []*refreshed
	descriptors descriptors // zero: no limit is known
	log         *slog.Logger
}

// newDoor reads the tokens and the certificate that c names. A door that is open to others says so
// in the log.
func newDoor(c config.Server, log *slog.Logger) (*door, error) {
	d := &door{settings: c, log: log}
	if c.TokensFile != "" {
		d.tokens = &api.Tokens{}
		read := func() ([][]byte, error) {
			data, err := config.ReadTokens(c.TokensFile)
			return [][]byte{data}, err
		}
		f := &refreshed{what: "tokens", log: log, read: read, load: func(contents [][]byte) error {
			list, err := config.ParseTokens(c.TokensFile, contents[0])
			if err == nil {
				d.tokens.Replace(list)
			}
			return err
		}, revoke: func() { d.tokens.Replace(nil) }}
		if err := f.first(); err != nil {
			return nil, err
		}
		d.files = append(d.files, f)
	}
	if c.CertFile != "" {
		d.cert = &certificate{certFile: c.CertFile, keyFile: c.KeyFile, log: log}
		f := &refreshed{what: "certificate", log: log, read: d.cert.read, load: d.cert.load}
		if err := f.first(); err != nil {
			return nil, fmt.Errorf("server.tls: %w", err)
		}
		d.files = append(d.files, f)
	}
	if exposed := c.Exposed(); exposed != "" {
		log.Warn("insecure", "why", exposed, "listen", c.Listen)
	}
	return d, nil
}

// checkDoor reads what newDoor would, unless some of it is not here: replicas may run elsewhere. expiry says of a
// certificate that it ends.
func checkDoor(c config.Server) (missing []string, expiry string, err error) {
	for _, path := range []string{c.TokensFile, c.CertFile, c.KeyFile} {
		if _, err := os.Stat(path); path != "" && errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, path)
		}
	}
	if missing != nil {
		return missing, "", nil
	}
	d, err := newDoor(c, slog.New(slog.DiscardHandler))
	if err != nil || d.cert == nil {
		return nil, "", err
	}
	if why := d.cert.expiry(); why != "" {
		expiry = fmt.Sprintf("server.tls: the certificate %s %s", c.CertFile, why)
	}
	return nil, expiry, nil
}

// guard sets what the API needs to know of the door.
func (d *door) guard(o *api.Options) {
	if d.tokens != nil {
		o.Access = d.tokens
	}
	o.Hosts = d.settings.Hosts
	own, _, _ := net.SplitHostPort(d.settings.Listen)
	if _, err := netip.ParseAddr(own); err != nil && own != "" { // a name
		o.Hosts = append(slices.Clone(o.Hosts), own)
	}
	o.TrustedProxies, o.Conditions = d.settings.TrustedProxies, d.conditions
}

// conditions say who may come in, for people; they keep no replica from its work. "insecure: …"
// means that others can do what only some should.
func (d *door) conditions() []wire.Condition {
	detail := d.settings.Exposed()
	if detail != "" {
		detail = "insecure: " + detail
	} else {
		detail = "this machine only"
		if !d.settings.Private() {
			detail = "TLS"
		}
		if d.tokens != nil {
			detail += fmt.Sprintf(", tokens: %d", d.tokens.Len())
		}
	}
	all := append([]wire.Condition{{Name: "access", Ready: true, Detail: detail}}, d.descriptors.conditions()...)
	for _, f := range d.files {
		if revoked, err := f.trouble(); err != nil {
			all = append(all, wire.Condition{Name: f.what, Ready: true, Detail: holds(revoked) + ": " + oneLine(err)})
		}
	}
	if d.cert != nil {
		if soon := d.cert.expiry(); soon != "" {
			all = append(all, wire.Condition{Name: "certificate", Ready: true, Detail: soon})
		}
	}
	return all
}

// withWeak adds to conditions what is weak in the connections to the store and to the lock service.
func withWeak(conditions func() []wire.Condition, weak []string) func() []wire.Condition {
	c := wire.Condition{Name: "connections", Ready: true, Detail: "insecure: " + strings.Join(weak, "; ")}
	return func() []wire.Condition { return append(conditions(), c) }
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// serve lets requests in until ctx is done, and reads the files of the door again when they change.
func (d *door) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	for _, f := range d.files {
		watching.Go(func() { f.run(ctx) })
	}
	o := api.ServeOptions{MaxConnections: d.descriptors.connections(), TrustedProxies: d.settings.TrustedProxies, Logger: d.log}
	if d.cert != nil {
		watching.Go(func() { d.cert.remind(ctx) })
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: d.cert.get}
	}
	return api.Serve(ctx, l, h, o)
}

// url is where the API can be reached, as far as this replica knows.
func (d *door) url(l net.Listener) string {
	scheme := "http"
	if d.cert != nil {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
		if len(d.settings.Hosts) > 0 {
			host = d.settings.Hosts[0]
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
