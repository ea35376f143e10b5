package mistakes

import (
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are killed here
	os.Exit(servers.Main(m))
}
