package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Each kind of server at the address of each other kind.
func TestWrongKindOfServer(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(servers.MySQL(t), "@tcp(")
	mysql, _, _ := strings.Cut(rest, ")")
	at := map[string]string{"Redis": servers.Redis(t), "MySQL": mysql, "ZooKeeper": servers.ZooKeeper(t), "another kind of server": greeter(t, "SSH-2.0-OpenSSH_9.2\r\n")}
	for probe, form := range map[string]string{
		"MySQL":     `store: {driver: mysql, dsn: "u:p@tcp(%s)/a"}`,
		"Redis":     `lock: {driver: redis, redis: {addrs: ["%s"]}}`,
		"ZooKeeper": "name: prod\n" + `lock: {driver: zookeeper, zookeeper: {servers: ["%s"]}}`,
	} {
		for is, addr := range at {
			if is == probe {
				continue
			}
			t.Run(is+" at the port of "+probe, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "lockstep.yaml")
				put(t, path, "version: 1\njobs: {a: {command: [echo]}}\nserver: {listen: \"127.0.0.1:0\"}\n"+fmt.Sprintf(form, addr)+"\n")
				got := call(t, nil, "serve", "-c", path)
				if got.code != exitFailed || !strings.Contains(got.stderr, is+" answers at "+addr+", not "+probe) &&
					!strings.Contains(got.stderr, is+" without TLS answers at "+addr+", not "+probe) {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

func greeter(t *testing.T, greeting string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(greeting))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// The MySQL client waits 5 s for a greeting that a Redis never sends: the start fails sooner.
func TestServerThatSendsNoGreeting(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t)
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	put(t, path, "version: 1\nname: prod\nlock: {driver: mysql, mysql: {dsn: \"u:p@tcp("+addr+")/x\"}}\nserver: {listen: \"127.0.0.1:0\"}\n")
	began := time.Now()
	got := call(t, nil, "serve", "-c", path)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
	if want := "lock.mysql.dsn: Redis without TLS answers at " + addr + ", not MySQL"; got.code != exitFailed || strings.Count(got.stderr, want) != 1 {
		t.Errorf("%+v, want %q once", got, want)
	}
}
