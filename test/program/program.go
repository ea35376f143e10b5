// Package program runs the scheduler, and other programs, as processes of a test.
//
// A package that uses it calls, instead of servers.Main:
//
//	func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
package program

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// built is what this test binary has built.
var built struct {
	sync.Mutex
	dir   string            // between the start and the end of Main
	paths map[string]string // by source, flags and environment
}

// Main is servers.Main, and removes what Build made. The result is for os.Exit.
func Main(m *testing.M) int {
	flag.Parse() // ends the process if a flag is wrong: before there is something to remove
	dir, err := os.MkdirTemp("", "lockstep-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir, built.paths = dir, map[string]string{}
	return servers.Main(m)
}

// Dir is a folder for builds. It exists until Main ends, and is the same for all tests.
func Dir(t testing.TB) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		t.Fatal("the package has no TestMain that calls program.Main")
	}
	return built.dir
}

// Build builds the program in a folder once, as users get it: without the race detector, whose
// slowness would blur bounds on time. It returns the file; env is added to the environment.
func Build(t testing.TB, source string, env ...string) string {
	t.Helper()
	return BuildWith(t, source, nil, env...)
}

// Race are the flags that build a program with the race detector. SQLite itself is left out, C that was
// translated to Go: it works on memory of the kernel, which the detector does not know, and the detector would
// make the program five times as slow. So is go-zookeeper, which has a race of its own (docs/dependencies.md). The Makefile has the same flags.
var Race = []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false",
	"-gcflags=modernc.org/libc=-race=false", "-gcflags=modernc.org/memory=-race=false", "-gcflags=github.com/go-zookeeper/zk=-race=false"}

// BuildWith is Build with flags of go build, as -race or -overlay: once for each list of flags.
func BuildWith(t testing.TB, source string, flags []string, env ...string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		t.Fatal("the package has no TestMain that calls program.Main")
	}
	key := fmt.Sprint(source, flags, env)
	if path := built.paths[key]; path != "" {
		return path
	}
	dir := filepath.Join(built.dir, strconv.Itoa(len(built.paths)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(source))
	cmd := exec.Command("go", slices.Concat([]string{"build", "-buildvcs=false", "-o", path}, flags, []string{source})...)
	cmd.Env = append(os.Environ(), env...)
	if slices.Contains(flags, "-race") { // it needs cgo, which the Makefile turns off for what tests build
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", source, err, out)
	}
	built.paths[key] = path
	return path
}
