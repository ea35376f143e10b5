package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
)

var update = flag.Bool("update", false, "write the golden files")

// environ is the environment that files in testdata may use.
var environ = []string{
	"NAME=prod", "EMPTY=", "N=8", "TTL=12s", "PATH=/usr/bin:/bin",
	"YAML=hunter2: [1, 2]", "AWS_REGION=eu-west-1",
}

var options = config.Options{Environ: environ}

// positioned is what every line of an error looks like; a file as a whole has no position.
var positioned = regexp.MustCompile(`^[^ :]+\.yaml(:[1-9][0-9]*:[1-9][0-9]*)?: .`)

// Every malformed file is refused with the positions and texts of its golden file, quickly, and without showing
// secrets.
func TestBad(t *testing.T) {
	folder, err := filepath.Abs("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir() // of this process's user, whosever the checkout is
	if err := os.CopyFS(copied, os.DirFS(filepath.Dir(folder))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(copied, "bad"))
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d malformed files (%v), want at least 60", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			started := time.Now()
			c, err := config.Load(file, options)
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if err == nil {
				t.Fatalf("accepted, with %d jobs", len(c.Set.Jobs))
			}
			var all config.Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("%T, want Errors: %v", err, err)
			}
			here, _ := os.Getwd()
			text := strings.ReplaceAll(err.Error(), here+"/", "") + "\n"
			if strings.Contains(text, "hunter2") {
				t.Errorf("shows a secret:\n%s", text)
			}
			for line := range strings.Lines(text) {
				if !positioned.MatchString(line) {
					t.Errorf("no position: %s", line)
				}
			}
			golden := filepath.Join(folder, strings.TrimSuffix(file, ".yaml")+".err")
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
