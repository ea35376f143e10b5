// Package manifests holds the files of deploy/ to the parsers of those who will read them: Compose,
// BuildKit and Kubernetes. It is a module of its own, so that nobody who imports Lockstep downloads
// these, and imports nothing of ours. What ours can judge is in test/deploy.
package manifests

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy/"

// stopMargin is what a replica may need beyond its drain timeout: the default grace period of
// commands, two margins, and the time for its last results.
const stopMargin = 24 * time.Second

// The go command does not see that files outside this module changed, so no result is kept.
func TestMain(m *testing.M) {
	flag.Parse()
	if log := flag.Lookup("test.testlogfile"); log != nil && log.Value.String() != "" {
		defer os.Remove(log.Value.String())
	}
	m.Run()
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deploy + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// drainTimeout is what a configuration says of it.
func drainTimeout(t *testing.T, config string) time.Duration {
	t.Helper()
	var c struct {
		Replica struct {
			DrainTimeout string `json:"drain_timeout"`
		} `json:"replica"`
	}
	if err := yaml.Unmarshal([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	d, err := time.ParseDuration(c.Replica.DrainTimeout)
	if err != nil {
		t.Fatalf("drain_timeout: %v", err)
	}
	return d
}

// pinned reports whether an image names a line of releases: a tag that begins with digits and a dot.
func pinned(image string) bool {
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	major, minor, dotted := strings.Cut(tag, ".")
	digit := func(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }
	return ok && dotted && digit(major) && digit(minor)
}

func TestPinned(t *testing.T) {
	for image, want := range map[string]bool{
		"golang:1.26-bookworm": true, "host:5000/mysql:8.4": true, "redis:latest": false, "redis": false,
		"host:5000/redis": false, "redis:7": false, "redis:alpine": false,
	} {
		if pinned(image) != want {
			t.Errorf("%s is pinned: %v", image, !want)
		}
	}
}
