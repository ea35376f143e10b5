package servers

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
)

// Secure is the security of a server. The zero value has none.
type Secure struct {
	Authority   *Authority  // signed the server's certificate; nil: no TLS
	Certificate Certificate // of the server; zero: a fresh one of the authority
	ClientCerts bool        // clients must show a certificate of the authority
	Password    string      // Redis: of the user "default"
}

// tlsFiles are copies for the server: it may run as an account that cannot read those of the test.
type tlsFiles struct{ ca, cert, key, both string }

func (s Secure) install(i *instance) (tlsFiles, error) {
	path := func(name string) string { return filepath.Join(i.dir, name) }
	files := tlsFiles{path("ca.pem"), path("cert.pem"), path("key.pem"), path("both.pem")}
	for name, content := range map[string][]byte{
		files.ca: s.Authority.pem, files.cert: s.Certificate.CertPEM, files.key: s.Certificate.KeyPEM,
		files.both: append(append([]byte{}, s.Certificate.KeyPEM...), s.Certificate.CertPEM...),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return tlsFiles{}, err
		}
		if i.owner != nil {
			if err := os.Chown(name, int(i.owner.uid), int(i.owner.gid)); err != nil {
				return tlsFiles{}, err
			}
		}
	}
	return files, nil
}

func (s Secure) complete() Secure {
	if s.Authority != nil && s.Certificate.CertPEM == nil {
		s.Certificate = s.Authority.Server()
	}
	return s
}

// ask sends Redis commands and ignores the server's certificate: clients check it in tests. It half-closes the
// connection instead of QUIT, which a sentinel does not know.
func (s Secure) ask(ctx context.Context, addr, commands string) (string, error) {
	if s.Password != "" {
		commands = "AUTH " + s.Password + "\r\n" + commands
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	if s.Authority != nil {
		pair, err := tls.X509KeyPair(s.Certificate.CertPEM, s.Certificate.KeyPEM)
		if err != nil {
			return "", err
		}
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	}
	return tell(ctx, halfClosing{conn}, commands)
}

// halfClosing ends its side of the connection after the first write.
type halfClosing struct{ net.Conn }

func (c halfClosing) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if end, ok := c.Conn.(interface{ CloseWrite() error }); ok && err == nil {
		err = end.CloseWrite()
	}
	return n, err
}
