// Package servers gives tests the real lock and database servers they speak to.
//
// Each server is private to the test binary, listens on a free loopback port and keeps its files in
// a temporary folder. A package that uses it says so once:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
//
// Redis, MySQL, ZooKeeper and Postgres give the one server of the binary, started when it is first asked for;
// tests share it, so they use names of their own. NewRedis, NewMySQL and NewZooKeeper give a server
// that belongs to one test, which may kill, stop, freeze and restart it.
//
// LOCKSTEP_TEST_REDIS (host:port), LOCKSTEP_TEST_MYSQL_DSN (a go-sql-driver DSN of a user who may
// create databases) and LOCKSTEP_TEST_ZOOKEEPER (host:port) name servers to use as the shared ones
// instead; a test's own servers are always private.
//
// Where a server's program is missing the test is left out, see LeaveOut. With LOCKSTEP_TEST_ALL=1,
// which `make test` sets, the program is installed instead (as root on Debian), or the test fails.
package servers

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// house is what this test binary has started.
var house struct {
	sync.Mutex
	open    bool // between the start and the end of Main
	running []*instance
}

// Main runs the tests, then stops every server they started and removes its folder. The result is
// for os.Exit.
//
// A test binary that does not get here (a panic, a timeout, SIGKILL) takes its servers with it on
// Linux; only their folders stay.
func Main(m *testing.M) int {
	house.Lock()
	house.open = true
	house.Unlock()

	code := m.Run()

	house.Lock()
	house.open = false
	running := house.running
	house.Unlock()
	var stopping sync.WaitGroup
	for _, s := range running {
		stopping.Go(s.remove)
	}
	stopping.Wait()
	return code
}

var errNoMain = errors.New("the package has no TestMain that calls servers.Main, so the server would not be stopped")

// admit notes s as one that Main has to stop.
func admit(s *instance) error {
	house.Lock()
	defer house.Unlock()
	if !house.open {
		return errNoMain
	}
	house.running = append(house.running, s)
	return nil
}

// Start starts a program that ends with this test binary, however that ends (on Linux). The test
// that calls it still has to end it and to wait for it.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = tied(cmd.SysProcAttr)
	return onKeeper(cmd.Start)
}

// onKeeper runs f on the one thread that starts servers. The kernel ties "kill the child when its
// parent dies" to the thread that forked, so that thread must live as long as the process.
func onKeeper(f func() error) error {
	done := make(chan error)
	keeper() <- func() { done <- f() }
	return <-done
}

var keeper = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range calls {
			f()
		}
	}()
	return calls
})
