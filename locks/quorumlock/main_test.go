package quorumlock

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they work
	redis.SetLogger(silent{})          // connections break here
	os.Exit(servers.Main(m))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
