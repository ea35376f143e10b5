package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority for one test.
type Authority struct {
	CAFile string // its own certificate, PEM

	tb   testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// Certificate is a certificate and its key, as PEM and as files.
type Certificate struct {
	CertFile, KeyFile string
	CertPEM, KeyPEM   []byte
}

// NewAuthority makes an authority. Its files go with the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{tb: t, dir: t.TempDir(), key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "Lockstep test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.CAFile = a.write("ca.pem", a.pem)
	return a
}

// Server makes a certificate for a server at 127.0.0.1.
func (a *Authority) Server() Certificate { return a.issue("127.0.0.1", time.Now().Add(24*time.Hour)) }

// Expired makes a certificate for a server at 127.0.0.1 that has expired.
func (a *Authority) Expired() Certificate { return a.issue("127.0.0.1", time.Now().Add(-time.Minute)) }

// Client makes a certificate for a client of that name.
func (a *Authority) Client(name string) Certificate {
	return a.issue(name, time.Now().Add(24*time.Hour))
}

// TLS trusts the authority alone, and shows the certificates.
func (a *Authority) TLS(shown ...Certificate) *tls.Config {
	a.tb.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.cert)
	for _, s := range shown {
		pair, err := tls.X509KeyPair(s.CertPEM, s.KeyPEM)
		if err != nil {
			a.tb.Fatal(err)
		}
		c.Certificates = append(c.Certificates, pair)
	}
	return c
}

func (a *Authority) issue(name string, until time.Time) Certificate {
	a.tb.Helper()
	key := newKey(a.tb)
	template := &x509.Certificate{
		SerialNumber: serial(a.tb), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	c := Certificate{
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}
	number := template.SerialNumber.Text(36)
	c.CertFile, c.KeyFile = a.write(number+".pem", c.CertPEM), a.write(number+".key", c.KeyPEM)
	return c
}

func (a *Authority) write(name string, content []byte) string {
	a.tb.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		a.tb.Fatal(err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
