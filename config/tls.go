package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// tlsFiles is a section named tls of the store or the lock.
type tlsFiles struct {
	Enabled       *bool // nil: enabled if another key is set
	Insecure      bool
	CA, Cert, Key file
	ServerName    string
}

// file is a path with where it is written.
type file struct {
	path string
	node *yaml.Node
}

var tlsKeys = schema[tlsFiles]{
	"enabled": func(r *reader, n *yaml.Node, t *tlsFiles) {
		enabled, _ := r.flag(n)
		t.Enabled = &enabled
	},
	"insecure":    flagField(func(t *tlsFiles) *bool { return &t.Insecure }),
	"ca_file":     fileField(func(t *tlsFiles) *file { return &t.CA }),
	"cert_file":   fileField(func(t *tlsFiles) *file { return &t.Cert }),
	"key_file":    fileField(func(t *tlsFiles) *file { return &t.Key }),
	"server_name": textField(func(t *tlsFiles) *string { return &t.ServerName }),
}

func fileField[T any](place func(*T) *file) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		if path, ok := r.given(n); ok {
			*place(into) = file{path, n}
		}
	}
}

// maxPEM bounds a file of certificates: a system's bundle fits.
const maxPEM = 1 << 20

// tlsField reads TLS settings. An empty map means none, and so does enabled: false. insecure is set to tls.insecure,
// which allows weaker options than a verified certificate.
func tlsField[T any](place func(*T) **tls.Config, insecure func(*T) *bool) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		var t tlsFiles
		object(r, n, tlsKeys, &t)
		*insecure(into) = t.Insecure
		switch {
		case t == tlsFiles{}:
			return
		case t.Enabled != nil && !*t.Enabled:
			if t.CA.path != "" || t.Cert.path != "" || t.Key.path != "" {
				r.warn(n, "has no effect: enabled is false", "set it to true, or remove the files")
			}
			return
		}
		settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}
		if t.CA.path != "" {
			r.within("ca_file", func() { settings.RootCAs = r.authorities(t.CA) })
		}
		switch {
		case t.Cert.path != "" && t.Key.path != "":
			settings.Certificates = r.certificate(t.Cert, t.Key)
		case t.Cert.path != "":
			r.within("cert_file", func() { r.fail(t.Cert.node, "needs key_file beside it", "") })
		case t.Key.path != "":
			r.within("key_file", func() { r.fail(t.Key.node, "needs cert_file beside it", "") })
		}
		*place(into) = settings
	}
}

// authorities reads the trusted authorities, in place of the system's.
func (r *reader) authorities(f file) *x509.CertPool {
	path := r.resolve(f.path)
	pool := x509.NewCertPool()
	if read, ok := r.readFile(f.node, path, trustedfile.Rule{Limit: maxPEM}); ok && !pool.AppendCertsFromPEM(read.Data) {
		r.fail(f.node, path+" holds no certificate in PEM form", `such a file has "-----BEGIN CERTIFICATE-----" lines`)
	}
	return pool
}

// certificate reads the client certificate.
func (r *reader) certificate(cert, key file) []tls.Certificate {
	certPath, keyPath := r.resolve(cert.path), r.resolve(key.path)
	var certPEM trustedfile.File
	var keyPEM []byte
	var ok, ok2 bool
	r.within("cert_file", func() { certPEM, ok = r.readFile(cert.node, certPath, trustedfile.Rule{Limit: maxPEM}) })
	r.within("key_file", func() { keyPEM, ok2 = r.secretFile(key.node, key.path) })
	if !ok || !ok2 {
		return nil
	}
	pair, err := tls.X509KeyPair(certPEM.Data, keyPEM)
	if err != nil {
		r.within("cert_file", func() {
			r.fail(cert.node, fmt.Sprintf("%s and %s are not a certificate and its key in PEM form: %v", certPath, keyPath, err), "")
		})
		return nil
	}
	return []tls.Certificate{pair}
}
