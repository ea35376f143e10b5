package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ZooKeeperServer is a standalone ZooKeeper that belongs to one test. Its data survives Kill and
// Start. Its tick is 500 ms, so sessions may be as short as one second.
type ZooKeeperServer struct {
	*instance
	Addr string // host:port
}

// ZooKeeper returns the address (host:port) of the ZooKeeper that the tests of this binary share.
func ZooKeeper(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv("LOCKSTEP_TEST_ZOOKEEPER"); addr != "" {
		return addr
	}
	need(t, "ZooKeeper", zooKeeperPrograms...)
	s, err := sharedZooKeeper()
	if err != nil {
		t.Fatal(err)
	}
	return s.addr()
}

var sharedZooKeeper = sync.OnceValues(func() (*instance, error) {
	s := zooKeeperInstance()
	return s, s.open()
})

// NewZooKeeper starts a ZooKeeper for this test. It ends with the test. Each property of its JVM is name=value.
func NewZooKeeper(t testing.TB, properties ...string) *ZooKeeperServer {
	t.Helper()
	need(t, "ZooKeeper", zooKeeperPrograms...)
	s := zooKeeperInstance()
	s.argv = withProperties(s.argv, properties)
	s.tb = t
	t.Cleanup(s.remove)
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	return &ZooKeeperServer{instance: s, Addr: s.addr()}
}

// Where Debian's packages put them.
const (
	zooKeeperJar  = "/usr/share/java/zookeeper.jar"
	zooKeeperConf = "/etc/zookeeper/conf"
)

var zooKeeperPrograms = []string{"java", zooKeeperJar, zooKeeperConf}

// zooKeeperInstance is a server with more lines of configuration, which are asked for at each start.
func zooKeeperInstance(more ...func(s *instance) (string, error)) *instance {
	return &instance{name: "ZooKeeper", mute: true, ready: zooKeeperReady, argv: func(s *instance) ([]string, error) {
		conf := filepath.Join(s.dir, "zoo.cfg")
		var text strings.Builder
		fmt.Fprintf(&text, `clientPort=%d
clientPortAddress=127.0.0.1
dataDir=%s
tickTime=500
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
`, s.port, s.dir)
		for _, lines := range more {
			added, err := lines(s)
			if err != nil {
				return nil, err
			}
			text.WriteString(added)
		}
		if err := os.WriteFile(conf, []byte(text.String()), 0o644); err != nil {
			return nil, err
		}
		java, _ := find("java")
		return []string{
			java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // a small JVM that starts fast
			"-Dzookeeper.root.logger=INFO,CONSOLE", "-Dzookeeper.preAllocSize=1024",
			"-cp", strings.Join([]string{zooKeeperConf, zooKeeperJar, nettyCodecJar, nettyResolverJar}, ":"),
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", conf,
		}, nil
	}}
}

// withProperties adds properties of the JVM to a command line, behind the program.
func withProperties(argv func(s *instance) ([]string, error), properties []string) func(s *instance) ([]string, error) {
	return func(s *instance) ([]string, error) {
		line, err := argv(s)
		if err != nil {
			return nil, err
		}
		for _, p := range properties {
			line = slices.Insert(line, 1, "-D"+p)
		}
		return line, nil
	}
}

// zooKeeperReady asks for the configuration: it is told only by a server that serves, and the
// folder in it says that the one on our port is ours.
func zooKeeperReady(ctx context.Context, s *instance) error {
	answer, err := ask(ctx, s.addr(), "conf")
	switch {
	case err != nil:
		return err
	case !strings.Contains(answer, "dataDir="):
		return fmt.Errorf("conf: %.80q", answer)
	case !strings.Contains(answer, "dataDir="+s.dir+"/"):
		return errPortTaken
	}
	return nil
}
