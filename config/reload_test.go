package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
)

// What a replica does not load while it runs is named by its keys, whatever is in pools and jobs, and however it is written.
func TestWhatNeedsARestart(t *testing.T) {
	load := func(text string) *config.Config {
		t.Helper()
		c, err := config.LoadBytes("a.yaml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := load("version: 1\nname: prod\nreplica: {workers: 3, labels: {zone: a}}\nserver: {hosts: [a, b]}\njobs: {j: {command: [a]}}\n")
	for text, want := range map[string][]string{
		"version: 1\nname: \"prod\" # as before\nreplica:\n  labels: {zone: a}\n  workers: 3\nserver: {hosts: [a, b]}\nx-mine: 1\ndefaults: {timeout: 1s}\npools: {p: {command: [a]}}\njobs: {k: {command: [b]}}\n": nil,
		"version: 1\nname: other\nreplica: {workers: 4, labels: {zone: b}}\nserver: {hosts: [b, a]}\nwatch: false\nlock: {ttl: 9s}\n":                                                                               {"lock.ttl", "name", "replica.labels.zone", "replica.workers", "server.hosts", "watch"},
		"version: 1\n": {"name", "replica.labels.zone", "replica.workers", "server.hosts"},
	} {
		if diff := cmp.Diff(want, load(text).NeedsRestart(before)); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
}

// Load tells of every file that its result depends on, and of patterns, also when it fails.
func TestLoadTellsWhichFilesItOpens(t *testing.T) {
	dir := t.TempDir()
	main, included, env := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "jobs.d", "a.yaml"), filepath.Join(dir, "env")
	if err := os.Mkdir(filepath.Dir(included), 0o700); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		main: "version: 1\ninclude: [jobs.d/*.yaml, b.yaml]\nstore: {driver: mysql, dsn_file: dsn}\n", included: "jobs: {a: {command: [echo], env_file: ../env}}\n", env: "A=1\n",
	}
	for path, text := range texts {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var opened []string
	contents := map[string]string{}
	_, err := config.Load(main, config.Options{Opened: func(path string, content []byte) {
		opened = append(opened, path)
		if content != nil {
			contents[path] = string(content)
		}
	}})
	if err == nil {
		t.Error("b.yaml and dsn are missing")
	}
	slices.Sort(opened)
	want := []string{filepath.Join(dir, "b.yaml"), filepath.Join(dir, "dsn"), env, filepath.Join(dir, "jobs.d", "*.yaml"), included, main}
	slices.Sort(want)
	if diff := cmp.Diff(want, opened); diff != "" {
		t.Error(diff)
	}
	// Attempts read the environment themselves, and two files are missing.
	if diff := cmp.Diff(map[string]string{main: texts[main], included: texts[included], filepath.Join(dir, "jobs.d", "*.yaml"): included}, contents); diff != "" {
		t.Error(diff)
	}
}
