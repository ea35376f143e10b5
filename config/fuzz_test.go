package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
)

// Loading any file ends soon, without a panic, with a configuration or with Errors.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d seeds, %v", len(files), err)
	}
	for _, file := range append(files, "../config.example.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		started := time.Now()
		c, err := config.LoadBytes(filepath.Join(folder, "lockstep.yaml"), data, options)
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if err == nil {
			if c == nil || c.Set.Jobs == nil {
				t.Error("neither a configuration nor an error")
			}
			return
		}
		var all config.Errors
		if !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("%T: %v", err, err)
		}
		for _, e := range all {
			if e.Problem == "" || e.Line < 0 || e.Line > 0 && e.Column < 1 {
				t.Errorf("%+v", e)
			}
		}
	})
}
