//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A store that other users may access, such as a backup made without a umask, is used; the log and doctor report it.
func TestAStoreThatOthersMayUse(t *testing.T) {
	t.Parallel()
	for mode, want := range map[os.FileMode]struct{ level, is string }{
		0o600: {"", ""},
		0o644: {"WARN", "insecure: others can read the store"},
		0o666: {"ERROR", "insecure: others can write the store, and so make jobs run"},
	} {
		dir := t.TempDir()
		file, path := filepath.Join(dir, "lockstep.db"), filepath.Join(dir, "main.yaml")
		put(t, path, "version: 1\nstore: {dsn: "+file+"}\nserver: {listen: \"127.0.0.1:0\"}\njobs: {a: {command: [sh]}}\n")
		if got := call(t, nil, "migrate", "up", "-c", path); got.code != exitFine {
			t.Fatalf("%+v", got)
		}
		_ = os.Remove(file + "-turn") // it comes with the backup's mode
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		said := func() string {
			t.Helper()
			all, code := runDoctor(t, dir, "")
			for _, f := range all {
				if strings.Contains(f, "insecure") {
					if code != exitFine {
						t.Errorf("%04o: exit code %d", mode, code)
					}
					return f
				}
			}
			return ""
		}
		if got := said(); want.is == "" && got != "" || want.is != "" && (!strings.HasPrefix(got, "warning store: "+want.is+": "+file+" can be ") || !strings.Contains(got, "chmod 600 "+file)) {
			t.Errorf("%04o: doctor reports %q", mode, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		log, ended := &logged{}, make(chan int, 1)
		go func() { ended <- run(ctx, []string{"serve", "-c", path}, strings.NewReader(""), log, log) }()
		await.Until(t, "it listens", func() bool { return log.server() != "" })
		if want.is == "" {
			if log.has("insecure") {
				t.Errorf("%04o: %s", mode, &log.text)
			}
		} else {
			for _, suffix := range []string{"", "-wal", "-shm", "-turn"} { // all of which are there
				if !log.has(file + suffix + " can be ") {
					t.Errorf("%04o: the log does not report %s", mode, suffix)
				}
			}
			if !log.has(`"level":"`+want.level+`","msg":"`+want.is+`"`) || log.count("insecure") != 1 {
				t.Errorf("%04o: %s", mode, &log.text)
			}
		}
		cancel()
		if code := <-ended; code != exitFine {
			t.Errorf("%04o: exit code %d", mode, code)
		}
	}
}
