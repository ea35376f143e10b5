package zklock

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		addr := servers.ZooKeeper(t)
		h := harness(Options{}, addr)
		h.ExpireSession = func(t *testing.T, s driver.Session) { expire(t, addr, s.(*session)) }
		return h
	})
}

// slowTTL is for services that a busy machine makes slow: three JVMs, or one that has to encrypt.
const slowTTL = 5 * time.Second

// With TLS and a login everything is as without.
func TestSecureConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		a := servers.NewAuthority(t)
		srv := servers.NewSecureZooKeeper(t, servers.Secure{Authority: a, ClientCerts: true})
		h := harness(Options{Auth: alice, TLS: a.TLS(a.Client("replica"))}, srv.SecureAddr)
		h.Brief, h.MinTTL = true, slowTTL
		return h
	})
}

func TestEnsembleConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		e := servers.NewEnsemble(t)
		h := harness(Options{}, e.Addrs()...)
		h.Brief, h.MinTTL = true, slowTTL
		return h // without ExpireSession: its own server may be the last to notice the end
	})
}

// harness gives each client ways of its own to the servers.
func harness(o Options, addrs ...string) lockstest.Harness {
	ways := func(d driver.Driver, do func(*cut)) {
		for _, way := range d.(*behind).ways {
			do(way)
		}
	}
	return lockstest.Harness{
		MinTTL: 3 * time.Second, // a young JVM beside busy tests is slow
		Driver: func(t *testing.T) driver.Driver {
			b := &behind{}
			var fronts []string
			for _, addr := range addrs {
				way := newCut(t, addr)
				b.ways, fronts = append(b.ways, way), append(fronts, way.addr)
			}
			b.Driver = New(fronts, o)
			return b
		},
		Disconnect: func(_ *testing.T, d driver.Driver) { ways(d, func(c *cut) { c.break_(true) }) },
		Reconnect:  func(_ *testing.T, d driver.Driver) { ways(d, func(c *cut) { c.set(false, false) }) },
	}
}

// behind is a driver behind ways that can be cut.
type behind struct {
	*Driver
	ways []*cut
}

// expire ends the session at the server, as its timeout would: by closing it from another connection
// of the session, with the password that the server gave for it.
func expire(t *testing.T, addr string, s *session) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))

	found, ok := passwords.Load(s.id)
	if !ok {
		t.Fatalf("no password of session %s", s.ID())
	}
	password := found.([]byte)
	b := binary.BigEndian.AppendUint32(nil, 28+16)
	b = binary.BigEndian.AppendUint32(b, 0)                              // protocol
	b = binary.BigEndian.AppendUint64(b, 0)                              // last zxid seen
	b = binary.BigEndian.AppendUint32(b, uint32(s.ttl/time.Millisecond)) // timeout
	b = binary.BigEndian.AppendUint64(b, uint64(s.id))                   // session
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(password))), password...)
	b = binary.BigEndian.AppendUint32(b, 8)
	b = binary.BigEndian.AppendUint32(b, 1)        // xid
	b = binary.BigEndian.AppendUint32(b, 1<<32-11) // closeSession
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil { // until the server hangs up
		t.Fatal(err)
	}
}
