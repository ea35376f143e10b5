package servers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"testing"
)

// SecureZooKeeperServer is a ZooKeeper that also listens for clients with TLS.
type SecureZooKeeperServer struct {
	*ZooKeeperServer
	SecureAddr string // host:port
}

// Two libraries that TLS needs and the jar of ZooKeeper does not name.
const (
	nettyCodecJar    = "/usr/share/java/netty-codec.jar"
	nettyResolverJar = "/usr/share/java/netty-resolver.jar"
)

// NewSecureZooKeeper starts a ZooKeeper for this test that speaks TLS at SecureAddr, and plainly at
// Addr. It ends with the test.
func NewSecureZooKeeper(t testing.TB, secure Secure) *SecureZooKeeperServer {
	t.Helper()
	need(t, "ZooKeeper", append([]string{nettyCodecJar, nettyResolverJar}, zooKeeperPrograms...)...)
	secure = secure.complete()
	clients := "none"
	if secure.ClientCerts {
		clients = "need"
	}
	var port, beside int
	s := zooKeeperInstance(func(s *instance) (string, error) {
		files, err := secure.install(s)
		if err != nil {
			return "", err
		}
		if beside != s.port { // it stays over restarts, and changes with the other one
			if port, err = freePort(); err != nil {
				return "", err
			}
			beside = s.port
		}
		return fmt.Sprintf(`secureClientPort=%d
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=%s
ssl.keyStore.type=PEM
ssl.trustStore.location=%s
ssl.trustStore.type=PEM
ssl.clientAuth=%s
`, port, files.both, files.ca, clients), nil
	})
	secureAddr := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	plain, shake := s.ready, secure.Authority.TLS(secure.Authority.Client("ready"))
	shake.InsecureSkipVerify = true                          // clients check its certificate in tests
	s.ready = func(ctx context.Context, s *instance) error { // it opens one port after the other, and its first handshake takes seconds
		if err := plain(ctx, s); err != nil {
			return err
		}
		conn, err := (&tls.Dialer{Config: shake}).DialContext(ctx, "tcp", secureAddr())
		if err != nil {
			return err
		}
		return conn.Close()
	}
	s.tb = t
	t.Cleanup(s.remove)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return &SecureZooKeeperServer{ZooKeeperServer: &ZooKeeperServer{instance: s, Addr: s.addr()}, SecureAddr: secureAddr()}
}
