package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const alice = "alice:correct horse"

func openAs(t *testing.T, addr, namespace string, o Options) *session {
	t.Helper()
	s, err := New([]string{addr}, o).Open(t.Context(), driver.Open{Namespace: namespace, TTL: 10 * time.Second, Owner: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s.(*session)
}

func TestNodesAreProtected(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	a := openAs(t, addr, "prod", Options{Root: "/guarded", Auth: alice})
	lockstest.Grant(t, a, "k")
	paths := []string{
		"/guarded", "/guarded/prod", "/guarded/prod/locks", "/guarded/prod/queues", "/guarded/prod/sessions", "/guarded/prod/notices",
		"/guarded/prod/sessions/" + a.ID(), "/guarded/prod/locks/k", "/guarded/prod/locks/k/held",
	}
	anonymous, mallory, again := operator(t, addr), operator(t, addr), operator(t, addr)
	for conn, who := range map[*zk.Conn]string{mallory: "alice:wrong", again: alice} {
		if err := conn.AddAuth("digest", []byte(who)); err != nil {
			t.Fatal(err)
		}
	}
	for who, conn := range map[string]*zk.Conn{"anonymous": anonymous, "another password": mallory} {
		for _, path := range paths {
			_, _, get := conn.Get(path)
			_, _, children := conn.Children(path)
			_, set := conn.Set(path, nil, -1)
			_, create := conn.Create(path+"/x", nil, 0, zk.WorldACL(zk.PermAll))
			_, acl := conn.SetACL(path, zk.WorldACL(zk.PermAll), -1)
			for what, err := range map[string]error{"get": get, "children": children, "set": set, "create": create, "set ACL": acl} {
				if childless := errors.Is(err, zk.ErrNoChildrenForEphemerals) && what == "create"; !errors.Is(err, zk.ErrNoAuth) && !childless {
					t.Errorf("%s: %s of %s: %v, want ErrNoAuth", who, what, path, err)
				}
			}
			// Whether a node may be deleted says its parent, and "/" is open to all: there it is
			// its child that protects it.
			err := conn.Delete(path, -1)
			if full := path == "/guarded" && errors.Is(err, zk.ErrNotEmpty); !full && !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("%s: delete of %s: %v", who, path, err)
			}
		}
	}
	for _, path := range paths {
		if _, _, err := again.Get(path); err != nil {
			t.Errorf("the same user elsewhere: %s: %v", path, err)
		}
	}
}

func TestWrongPasswordAndNone(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	openAs(t, addr, "prod", Options{Root: "/owned", Auth: alice})
	for name, c := range map[string]struct{ auth, want string }{
		"another password": {"alice:tr0ub4dor", `than "alice"`},
		"another user":     {"bob:tr0ub4dor", `than "bob"`},
		"no user":          {"", "no user is given"},
	} {
		for _, namespace := range []string{"prod", "another"} {
			began := time.Now()
			_, err := New([]string{addr}, Options{Root: "/owned", Auth: c.auth}).Open(t.Context(), driver.Open{Namespace: namespace, TTL: ttl})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "tr0ub4dor") {
				t.Errorf("%s, namespace %s: %v; want the address and %q, and no password", name, namespace, err, c.want)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
		}
	}
	// The root of the ensemble is open to all, and nodes made below it are not.
	lockstest.Grant(t, openAs(t, addr, "rooted", Options{Root: "/", Auth: alice}), "k")
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no colon":    {Options{Auth: "hunter2"}, "user:password"},
		"no user":     {Options{Auth: ":hunter2"}, "user:password"},
		"no password": {Options{Auth: "hunter2:"}, "user:password"},
	} {
		_, err := New([]string{"127.0.0.1:1"}, c.o).Open(t.Context(), driver.Open{Namespace: "a", TTL: ttl})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestNodesFromBeforeTheLogin(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	before := openAs(t, addr, "prod", Options{Root: "/before"})
	lockstest.Grant(t, before, "k")
	with := Options{Root: "/before", Auth: alice}
	_, err := New([]string{addr}, with).Open(t.Context(), driver.Open{Namespace: "prod", TTL: ttl})
	if err == nil || !strings.Contains(err.Error(), "every client can change /before") || !strings.Contains(err.Error(), "setAcl -R /before auth::cdrwa") {
		t.Fatalf("open: %v; want what is open and what to do", err)
	}
	// What the error says to do helps, and locks the others out.
	op := operator(t, addr)
	if err := op.AddAuth("digest", []byte(alice)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/before/prod/locks/k/held", "/before/prod/locks/k", "/before/prod/locks", "/before/prod/queues", "/before/prod/sessions", "/before/prod/notices", "/before/prod", "/before"} {
		acl := zk.AuthACL(zk.PermAll)
		if path == "/before/prod" { // reading may be open
			acl = append(acl, zk.WorldACL(zk.PermRead)...)
		}
		if _, err := op.SetACL(path, acl, -1); err != nil {
			t.Fatal(err)
		}
	}
	after := openAs(t, addr, "prod", with)
	if r := lockstest.Acquire(t, after, "after", "k"); r[0].Holder == nil {
		t.Errorf("the old holder's key: %+v", r[0])
	}
	if got, err := before.TryAcquire(t.Context(), "before", lockstest.Wants("k2")); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("without a login: %+v, %v", got, err)
	}
}

func TestLoginIsRepeated(t *testing.T) {
	t.Parallel()
	addr := servers.ZooKeeper(t)
	way := newCut(t, addr)
	o := Options{Root: "/repeated", Auth: alice}
	a := openAs(t, way.addr, "prod", o)
	mine := lockstest.Grant(t, a, "k")
	for i := range 3 {
		way.break_(true)
		way.set(false, false)
		await.Until(t, "a renewal gets through", func() bool { return lockstest.Renew(t.Context(), a) == nil })
		lockstest.Grant(t, a, fmt.Sprintf("fresh-%d", i)) // needs a container, which needs the identity
	}
	lockstest.Holds(t, a, mine, true)
	// A session that ended is followed by another one.
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := openAs(t, way.addr, "prod", o)
	if h := lockstest.Grant(t, b, "k"); h.Token <= mine.Token {
		t.Errorf("token %d after %d", h.Token, mine.Token)
	}
}

func TestWhatAServerSaysOfALogin(t *testing.T) {
	t.Parallel()
	below, broken := namesOf("/root", "prod"), errors.New("broken")
	for name, c := range map[string]struct {
		user string
		err  error
		want string
	}{
		"no user":             {"", zk.ErrNoAuth, "no user is given"},
		"another user":        {"alice", zk.ErrNoAuth, `the nodes below /root/prod belong to another user of ZooKeeper than "alice"`},
		"the login is denied": {"alice", zk.ErrAuthFailed, `does not let "alice" log in`},
		"something else":      {"alice", broken, ""},
		"nothing of a login":  {"", broken, ""},
	} {
		err := login{user: c.user, password: "hunter2"}.refused(below, c.err)
		if c.want == "" {
			c.want = c.err.Error()
			if err != c.err { //nolint:errorlint // it says no more
				t.Errorf("%s: %v, want nothing added", name, err)
			}
		}
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
