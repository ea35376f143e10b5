package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// all says that no test may be left out.
func all() bool { return os.Getenv("LOCKSTEP_TEST_ALL") == "1" }

// find returns the path of a program, or of the files that an absolute pattern names.
func find(name string) (string, error) {
	if filepath.IsAbs(name) {
		files, err := filepath.Glob(name)
		if err == nil && files == nil {
			err = os.ErrNotExist
		}
		return strings.Join(files, ":"), err
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} { // not in an ordinary user's PATH
		if path, lookErr := exec.LookPath(filepath.Join(dir, name)); lookErr == nil {
			return path, nil
		}
	}
	return "", err
}

func missing(programs []string) []string {
	return slices.DeleteFunc(slices.Clone(programs), func(name string) bool {
		_, err := find(name)
		return err == nil
	})
}

// packages of Debian that hold the programs.
var packages = map[string]string{
	"chromium":           "chromium",
	"curl":               "curl",
	"jq":                 "jq",
	"node":               "nodejs",
	"python3":            "python3",
	"tsc":                "node-typescript",
	"redis-server":       "redis-server",
	"redis-cli":          "redis-tools",
	"sqlite3":            "sqlite3",
	"mysql":              "mariadb-client",
	"mysqldump":          "mariadb-client",
	"promtool":           "prometheus",
	"systemd-analyze":    "systemd",
	"mariadbd":           "mariadb-server",
	"mariadb-install-db": "mariadb-server",
	"java":               "default-jre-headless",
	postgresProgram:      "postgresql",
	initdbProgram:        "postgresql",
	psqlProgram:          "postgresql-client",
	fakeTime:             "libfaketime",
	zooKeeperJar:         "zookeeper",
	zooKeeperConf:        "zookeeper",
	nettyCodecJar:        "libnetty-java",
	nettyResolverJar:     "libnetty-java",
}

// Need returns if the programs for a check are installed, and ends the test like need otherwise.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	need(t, strings.Join(programs, " and "), programs...)
}

// need returns if the programs of a server are installed; otherwise the test ends: left out, or failed if no
// test may be left out and they cannot be installed.
func need(t testing.TB, server string, programs ...string) {
	t.Helper()
	lacks := missing(programs)
	if len(lacks) == 0 {
		return
	}
	if !all() {
		LeaveOut(t, "needs "+server+", and this machine has no "+strings.Join(lacks, ", "))
	}
	if err := install(programs); err != nil {
		t.Fatalf("%s: %v", server, err)
	}
}

var installing sync.Mutex

// install installs the programs on a Debian machine, one test binary at a time.
func install(programs []string) error {
	installing.Lock()
	defer installing.Unlock()
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "lockstep-install.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := lockFile(lock); err != nil {
		return err
	}
	lacks := missing(programs) // another binary may have installed them
	if len(lacks) == 0 {
		return nil
	}
	var names []string
	for _, name := range lacks {
		names = append(names, packages[name])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		return fmt.Errorf("no %s here; install what Debian calls %s, or run `make test` as root on Debian",
			strings.Join(lacks, ", "), strings.Join(names, " "))
	}

	restore, err := forbidServices()
	if err != nil {
		return err
	}
	defer restore()
	for _, args := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-q", "-y", "--no-install-recommends"}, names...),
	} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out[max(0, len(out)-4096):])
		}
	}
	if lacks := missing(programs); len(lacks) > 0 {
		return fmt.Errorf("still no %s after installing %s", strings.Join(lacks, ", "), strings.Join(names, " "))
	}
	return nil
}

// forbidServices keeps the packages from starting their servers on the machine, in the way of Debian. The
// returned function restores the setting.
func forbidServices() (restore func(), err error) {
	const policy, kept = "/usr/sbin/policy-rc.d", "/usr/sbin/policy-rc.d.before-lockstep-test"
	restore = func() { _ = os.Remove(policy) }
	if err := os.Rename(policy, kept); err == nil {
		restore = func() { _ = os.Rename(kept, policy) }
	} else if !os.IsNotExist(err) {
		return nil, err
	}
	if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		restore()
		return nil, err
	}
	return restore, nil
}
