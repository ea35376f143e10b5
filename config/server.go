package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Server is the API of this replica.
type Server struct {
	Listen         string         // host:port
	Hosts          []string       // accepted Host names, besides localhost and its own address
	TokensFile     string         // see LoadTokens; empty: no authentication
	CertFile       string         // in PEM form, with the chain; empty: no TLS
	KeyFile        string         // in PEM form
	TrustedProxies []netip.Prefix // their X-Forwarded-For is used
	Insecure       bool           // allow a reachable address without tokens or TLS
}

var serverKeys = schema[Server]{
	"listen":          textField(func(c *Server) *string { return &c.Listen }),
	"hosts":           readHosts,
	"auth":            section(authKeys, func(c *Server) *Server { return c }),
	"tls":             section(serverTLSKeys, func(c *Server) *Server { return c }),
	"trusted_proxies": readProxies,
	"insecure":        flagField(func(c *Server) *bool { return &c.Insecure }),
}

var (
	authKeys = schema[Server]{
		"tokens_file": pathField(func(c *Server) *string { return &c.TokensFile }),
	}
	serverTLSKeys = schema[Server]{
		"cert_file": pathField(func(c *Server) *string { return &c.CertFile }),
		"key_file":  pathField(func(c *Server) *string { return &c.KeyFile }),
	}
)

var hostName = regexp.MustCompile(`^[a-zA-Z0-9_]([a-zA-Z0-9_.-]{0,251}[a-zA-Z0-9_])?$`)

func readHosts(r *reader, n *yaml.Node, into *Server) {
	hosts := r.texts(n, func(item *yaml.Node) (string, bool) {
		host, ok := r.text(item)
		if _, err := netip.ParseAddr(host); ok && err != nil && !hostName.MatchString(host) {
			r.fail(item, quote(item)+" is not the name of a host", "write a name or an address, without scheme and port")
			return "", false
		}
		return host, ok
	})
	if len(hosts) > 0 {
		into.Hosts = hosts
	}
}

func readProxies(r *reader, n *yaml.Node, into *Server) {
	r.items(n, func(item *yaml.Node) {
		text, ok := r.text(item)
		if !ok {
			return
		}
		network, err := netip.ParsePrefix(text)
		if addr, err2 := netip.ParseAddr(text); err2 == nil && addr.Zone() == "" {
			network, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case err != nil:
			r.fail(item, quote(item)+" is not a network", "write an address, or a network as in 10.0.0.0/8")
		case network.Bits() == 0:
			r.fail(item, quote(item)+" is every address", "list the addresses of your load balancers")
		default:
			into.TrustedProxies = append(into.TrustedProxies, network.Masked())
		}
	})
}

// Check is nil if the API may listen so. It is for addresses from elsewhere than the file, such as "serve --listen".
func (s Server) Check() error {
	if _, problem, hint := s.problem(); problem != "" {
		return errors.New(strings.TrimSuffix(problem+"; "+hint, "; "))
	}
	return nil
}

// problem refuses an API that other machines can reach without authentication or without TLS.
func (s Server) problem() (path, problem, hint string) {
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return "server.listen", fmt.Sprintf("%q is not an address to listen at", s.Listen), "write host:port, as in 127.0.0.1:8080"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "server.listen", fmt.Sprintf("the port %q is not a number from 0 to 65535", port), ""
	}
	switch {
	case s.CertFile != "" && s.KeyFile == "":
		return "server.tls", "has a cert_file and no key_file", "set both"
	case s.CertFile == "" && s.KeyFile != "":
		return "server.tls", "has a key_file and no cert_file", "set both"
	case s.Private() || s.Insecure:
		return "", "", ""
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !hostName.MatchString(host) {
		return "server.listen", fmt.Sprintf("%q is not a host", host), "write an address of this machine"
	}
	var missing []string
	if s.TokensFile == "" {
		missing = append(missing, "server.auth.tokens_file (\"scheduler token create\" writes one)")
	}
	if s.CertFile == "" {
		missing = append(missing, "server.tls.cert_file and key_file")
	}
	if missing == nil {
		return "", "", ""
	}
	why := "every client that reaches the API may use it"
	if s.TokensFile != "" {
		why = "tokens would cross the network in plain text"
	}
	return "server.listen", fmt.Sprintf("%q is not a loopback address, and %s", s.Listen, why),
		"set " + strings.Join(missing, ", and ") + "; or listen on 127.0.0.1; or, in a private network, set server.insecure: true"
}

// Private reports whether only this machine can reach the API.
func (s Server) Private() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	ip, notIP := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || notIP == nil && ip.IsLoopback())
}

// Exposed describes what server.insecure exposes; "" for nothing.
func (s Server) Exposed() string {
	switch {
	case s.Private() || s.TokensFile != "" && s.CertFile != "":
		return ""
	case s.TokensFile != "":
		return "no server.tls: tokens cross the network in plain text"
	case s.CertFile != "":
		return "no server.auth: every client that reaches " + s.Listen + " may do everything"
	}
	return "neither server.auth nor server.tls: every client that reaches " + s.Listen + " may do everything"
}
