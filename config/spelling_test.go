package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
)

// A file gives the same definitions however its path is written, and from whatever folder: otherwise two replicas with one file had two configurations.
func TestSpellingsOfOnePath(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"lockstep.yaml": "version: 1\n" +
			"jobs: {a: {command: [./b], working_dir: below, env_file: set.env, output: {file: logs/a.log}, notify: {on: [failed], command: [./tell], working_dir: notes, env_file: set.env}}}\n",
		"set.env": "A=b\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hashes := map[string]string{}
	for _, from := range []string{".", "below"} {
		t.Chdir(filepath.Join(folder, from))
		for _, path := range []string{filepath.Join(folder, "lockstep.yaml"), map[string]string{".": "lockstep.yaml", "below": "../lockstep.yaml"}[from], map[string]string{".": "below/../lockstep.yaml", "below": "./../lockstep.yaml"}[from]} {
			c, err := config.Load(path, config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			filled := c.Set.WithDefaults()
			hash := filled.Compiler().Hash(filled.Jobs["a"]) + filled.Jobs["a"].Notify.Kind("job a") + filled.Jobs["a"].Output.File
			hashes[hash] = path
		}
	}
	if len(hashes) != 1 {
		t.Errorf("one file is several configurations: %v", hashes)
	}
}
