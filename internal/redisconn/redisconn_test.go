package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestAddress(t *testing.T) {
	for want, rdb := range map[string]redis.UniversalClient{
		"a:1":                            redis.NewClient(&redis.Options{Addr: "a:1"}),
		"a:1,b:2":                        redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1", "b:2"}}),
		"the master that Sentinel names": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}}),
		"redis":                          redis.NewRing(&redis.RingOptions{}),
	} {
		if got := Address(rdb); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		_ = rdb.Close()
	}
}

// Of a Cluster one node that can be reached is enough.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	there, gone := l.Addr().String(), closed.Addr().String()
	for _, c := range []struct {
		rdb     redis.UniversalClient
		reached bool
	}{
		{redis.NewClient(&redis.Options{Addr: there}), true},
		{redis.NewClient(&redis.Options{Addr: gone}), false},
		{redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{gone, there}}), true},
		{redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{gone, gone}}), false},
	} {
		if err := Dial(t.Context(), c.rdb); (err == nil) != c.reached {
			t.Errorf("%s: %v, want it reached: %t", Address(c.rdb), err, c.reached)
		}
		_ = c.rdb.Close()
	}
}

// said is an error that the server has answered.
type said string

func (e said) Error() string { return string(e) }
func (said) RedisError()     {}

func TestRefused(t *testing.T) {
	plain := redis.NewClient(&redis.Options{Addr: "a:1"})
	encrypted := redis.NewClient(&redis.Options{Addr: "a:1", TLSConfig: &tls.Config{}})
	defer plain.Close()
	defer encrypted.Close()
	for _, c := range []struct {
		rdb  redis.UniversalClient
		err  error
		want string // in front of it
	}{
		{plain, said("WRONGPASS invalid username-password pair"), "the server does not accept the user and the password: "},
		{plain, said("NOAUTH Authentication required."), "the server wants a password: "},
		{plain, said("ERR unauthenticated multibulk length"), "the server wants a password: "},
		{plain, said("ERR ACL failure in script: User lockstep has no permissions to run the 'time' command script: 35a5"), "the user may not do what locks need: "},
		{plain, said("NOPERM this user has no permissions to run the 'publish' command"), "the user may not do what locks need: "},
		{plain, said("ERR The user executing the script can't run this command"), "the user may not do what locks need: "},
		{plain, redis.Nil, "the sentinels know no master of that name: "},
		{encrypted, context.DeadlineExceeded, "no answer, perhaps the server does not speak TLS at this port: "},
		{plain, context.DeadlineExceeded, ""},
		{plain, errors.New("another"), ""},
	} {
		got := Refused(c.rdb, fmt.Errorf("call: %w", c.err))
		if want := c.want + "call: " + c.err.Error(); got.Error() != want || !errors.Is(got, c.err) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAnswered(t *testing.T) {
	for err, want := range map[error]bool{said("ERR no"): true, fmt.Errorf("call: %w", said("ERR no")): true, io.EOF: false} {
		if got := Answered(err); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
	}
}

func TestKeeps(t *testing.T) {
	if err := Keeps([]any{"ok"}); err != nil {
		t.Error(err)
	}
	if err := Keeps([]any{"evicts", "allkeys-lru"}); err == nil || !strings.Contains(err.Error(), "maxmemory-policy is allkeys-lru; set it to noeviction") {
		t.Error(err)
	}
}
