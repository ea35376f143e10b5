package scenarios

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var update = flag.Bool("update", false, "write the table of docs/locks.md")

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections end with their processes here
	if order := os.Getenv(orderOfHolder); order != "" {
		os.Exit(hold(order))
	}
	_ = flag.Set("test.parallel", "6") // they wait more than they work
	code := servers.Main(m)
	if code == 0 {
		if err := shown.compare(*update); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = 1
		}
	}
	os.Exit(code)
}
