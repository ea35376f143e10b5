package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// MasterName is what the sentinels of a SentinelSet call their master.
const MasterName = "lockstep"

// SentinelSet is a Redis with one replica, and three sentinels that make it the master when they
// have not heard of the first for two seconds.
type SentinelSet struct {
	Master, Replica *RedisServer // as they began
	Sentinels       []*RedisServer
}

// NewSentinel starts a set for this test; with secure, the servers and the sentinels ask for the
// same password, and all of them speak TLS. It ends with the test.
func NewSentinel(t testing.TB, secure Secure) *SentinelSet {
	t.Helper()
	secure = secure.complete()
	args := []string{"--repl-diskless-sync-delay", "0"}
	if secure.Password != "" {
		args = append(args, "--masterauth", secure.Password)
	}
	if secure.Authority != nil {
		args = append(args, "--tls-replication", "yes")
	}
	set := &SentinelSet{Master: NewSecureRedis(t, secure, args...)}
	host, port, _ := strings.Cut(set.Master.Addr, ":")
	set.Replica = NewSecureRedis(t, secure, append(args, "--replicaof", host+" "+port)...)
	await.Until(t, "the replica follows", func() bool {
		return strings.Contains(set.Replica.say(t, secure, "INFO replication"), "master_link_status:up")
	})
	for range 3 {
		s := sentinelInstance(secure, host, port)
		s.tb = t
		t.Cleanup(s.remove)
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		set.Sentinels = append(set.Sentinels, &RedisServer{instance: s, Addr: s.addr()})
	}
	await.Until(t, "the sentinels know each other and the replica", func() bool {
		for _, s := range set.Sentinels {
			about := s.say(t, secure, "SENTINEL MASTERS")
			if !strings.Contains(about, "num-slaves\r\n$1\r\n1\r\n") || !strings.Contains(about, "num-other-sentinels\r\n$1\r\n2\r\n") {
				return false
			}
		}
		return true
	})
	return set
}

// Addrs are the addresses (host:port) of the sentinels.
func (s *SentinelSet) Addrs() (addrs []string) {
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr)
	}
	return addrs
}

// sentinelInstance is a Redis whose arguments are a file: a sentinel writes down what it learns.
func sentinelInstance(secure Secure, masterHost, masterPort string) *instance {
	plain := redisInstance(secure, nil)
	s := &instance{name: "Sentinel", ready: plain.ready}
	s.argv = func(s *instance) ([]string, error) {
		argv, err := plain.argv(s)
		if err != nil {
			return nil, err
		}
		conf := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %[1]s 2000\nsentinel failover-timeout %[1]s 5000\n",
			MasterName, masterHost, masterPort)
		if secure.Password != "" {
			text += fmt.Sprintf("sentinel auth-pass %s %s\n", MasterName, secure.Password)
		}
		if secure.Authority != nil {
			text += "tls-replication yes\n"
		}
		if _, err := os.Stat(conf); err != nil {
			if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
				return nil, err
			}
		}
		return append([]string{argv[0], conf, "--sentinel"}, argv[1:]...), nil
	}
	return s
}

// say sends one command and returns the raw answer, or "" while there is none.
func (s *RedisServer) say(t testing.TB, secure Secure, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	answer, _ := secure.ask(ctx, s.Addr, command+"\r\n")
	return answer
}
