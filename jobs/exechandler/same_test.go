package exechandler_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// Every field of a command tells two handlers apart, or a reload would keep the old one.
func TestSame(t *testing.T) {
	first := exechandler.Command{Argv: []string{"/bin/true"}, Environ: []string{"PATH=/bin"}}
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made := func(c exechandler.Command) *exechandler.Handler {
		h, err := exechandler.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if !made(first).Same(made(first)) {
		t.Error("two of one command are not the same")
	}
	for field, change := range map[string]func(c *exechandler.Command){
		"Argv":      func(c *exechandler.Command) { c.Argv = []string{"/bin/true", "x"} },
		"Shell":     func(c *exechandler.Command) { c.Argv, c.Shell = nil, "true" },
		"Env":       func(c *exechandler.Command) { c.Env = map[string]string{"A": "b"} },
		"PassEnv":   func(c *exechandler.Command) { c.PassEnv = []string{"X*"} },
		"EnvFiles":  func(c *exechandler.Command) { c.EnvFiles = []string{file} },
		"Dir":       func(c *exechandler.Command) { c.Dir = "/" },
		"StopGrace": func(c *exechandler.Command) { c.StopGrace = time.Minute },
		"Limits":    func(c *exechandler.Command) { c.Limits.Nice = 1 },
		"Environ":   func(c *exechandler.Command) { c.Environ = []string{"PATH=/usr/bin"} },
	} {
		altered := first
		change(&altered)
		if made(first).Same(made(altered)) {
			t.Errorf("another %s makes no other handler", field)
		}
	}
	if n := reflect.TypeFor[exechandler.Command]().NumField(); n != 9 {
		t.Errorf("a command has %d fields: the test, and Same, know 9", n)
	}
}
