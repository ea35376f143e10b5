package mysqlconn_test

import (
	"os"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
