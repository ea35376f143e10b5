package zklock

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	a := servers.NewAuthority(t)
	srv := servers.NewSecureZooKeeper(t, servers.Secure{Authority: a})
	picky := servers.NewSecureZooKeeper(t, servers.Secure{Authority: a, ClientCerts: true})
	late := servers.NewSecureZooKeeper(t, servers.Secure{Authority: a, Certificate: a.Expired()})
	misnamed := a.TLS()
	misnamed.ServerName = "zookeeper.example"
	_, port, _ := strings.Cut(srv.SecureAddr, ":")
	for name, c := range map[string]struct {
		addr string
		tls  *tls.Config
		want string // "": it works
	}{
		"trusted":                        {srv.SecureAddr, a.TLS(), ""},
		"another authority":              {srv.SecureAddr, servers.NewAuthority(t).TLS(), "signed by an authority that is not trusted here"},
		"another name":                   {srv.SecureAddr, misnamed, "is for another name"},
		"a name that is not in the list": {"localhost:" + port, a.TLS(), "is for another name"},
		"expired":                        {late.SecureAddr, a.TLS(), "out of its time"},
		"no TLS":                         {srv.SecureAddr, nil, "perhaps it wants TLS"},
		"TLS at a plain port":            {srv.Addr, a.TLS(), "perhaps it does not speak TLS at this port"},
		"a client certificate":           {picky.SecureAddr, a.TLS(a.Client("replica")), ""},
		"no client certificate":          {picky.SecureAddr, a.TLS(), "client certificate"},
		"another certificate":            {picky.SecureAddr, a.TLS(servers.NewAuthority(t).Client("mallory")), "client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s, err := New([]string{c.addr}, Options{TLS: c.tls}).Open(t.Context(), driver.Open{Namespace: "tls", TTL: 10 * time.Second})
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("it took %v", took)
			}
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.addr) {
				t.Fatalf("%v; want %s and %q", err, c.addr, c.want)
			}
			t.Log(err)
		})
	}
}
