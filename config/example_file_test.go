package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const exampleFile = "../config.example.yaml"

// commentedKey is a line of the example that holds a key whose default is "nothing".
var commentedKey = regexp.MustCompile(`^( *)# ([a-z_]+): `)

// commentedMap is that, or a line of such a key's map.
var commentedMap = regexp.MustCompile(`^( *)#(?: |   )([a-z_]+): `)

func exampleText(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(string(data), "\n")
}

func loadExample(t *testing.T, lines []string) *Config {
	t.Helper()
	o := Options{
		Environ: []string{"PATH=" + os.Getenv("PATH")},
		Funcs:   map[string]jobs.Handler{"name": unable{}},
	}
	c, err := LoadBytes("config.example.yaml", []byte(strings.Join(lines, "")), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every value in the example is the default.
func TestExampleHasTheDefaults(t *testing.T) {
	c := loadExample(t, exampleText(t))
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	without, err := LoadBytes("config.example.yaml", []byte("version: 1\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := *c
	got.Replica.Labels = nil // an empty map is no map
	got.Set, got.Warnings, got.Settings = without.Set, without.Warnings, without.Settings
	if diff := cmp.Diff(without, &got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("settings (-default +example)\n%s", diff)
	}

	// A job of the example has the file's defaults and its own keys.
	job := c.Set.Jobs["tick"]
	job.Handler, job.Schedule, job.Description, job.Labels, job.RunsOn = nil, "", "", nil, nil
	job.Calendars.Exclude, job.Calendars.Only = nil, nil
	if diff := cmp.Diff((jobs.Job{}).WithDefaults(), job); diff != "" {
		t.Errorf("defaults (-default +example)\n%s", diff)
	}
	pool := c.Set.Pools[naming.DefaultPool]
	if len(pool.Kinds) > 0 {
		t.Errorf("kinds %v", pool.Kinds)
	}
	pool.Kinds = nil
	if diff := cmp.Diff((jobs.Pool{}).WithDefaults(), pool); diff != "" {
		t.Errorf("pools.default (-default +example)\n%s", diff)
	}
}

// Every key that a comment shows can be used as it is shown, where nothing contradicts it.
func TestExampleComments(t *testing.T) {
	lines := exampleText(t)
	// A key's map comes with it.
	uncomment := func(lines []string, i int) {
		m := commentedKey.FindStringSubmatch(lines[i])
		lines[i] = m[1] + strings.TrimPrefix(lines[i][len(m[1]):], "# ")
		for i++; strings.HasPrefix(lines[i], m[1]+"#   "); i++ {
			lines[i] = m[1] + strings.TrimPrefix(lines[i], m[1]+"# ")
		}
	}
	command, found := -1, 0
	for i, line := range lines {
		if strings.HasPrefix(line, "    # command:") { // of the section that this is
			command = i
		}
		m := commentedKey.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		found++
		t.Run(m[2], func(t *testing.T) {
			changed := slices.Clone(lines)
			uncomment(changed, i)
			if _, ok := processKeys[m[2]]; ok {
				uncomment(changed, command)
			}
			loadExample(t, changed)
		})
	}
	if found < 10 || command < 0 {
		t.Errorf("%d commented keys", found)
	}
}

// Every key of the schema is in the example, most of them in use.
func TestExampleHasEveryKey(t *testing.T) {
	lines := exampleText(t)
	for i, line := range lines {
		if m := commentedMap.FindStringSubmatch(line); m != nil {
			lines[i] = m[1] + strings.TrimPrefix(line[len(m[1]):], "# ")
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "")), &doc); err != nil {
		t.Fatal(err)
	}
	for path, keys := range map[string][]string{
		"":                      sorted(documentKeys),
		"replica":               sorted(replicaKeys),
		"store":                 sorted(storeKeys),
		"store.retention":       sorted(retentionKeys),
		"lock":                  sorted(lockKeys),
		"lock.redis":            sorted(redisKeys),
		"lock.redis.tls":        sorted(tlsKeys),
		"lock.zookeeper.tls":    sorted(tlsKeys),
		"lock.mysql.tls":        sorted(tlsKeys),
		"store.tls":             sorted(tlsKeys),
		"lock.zookeeper":        sorted(zookeeperKeys),
		"lock.mysql":            sorted(mysqlKeys),
		"server":                sorted(serverKeys),
		"server.auth":           sorted(authKeys),
		"server.tls":            sorted(serverTLSKeys),
		"defaults":              sorted(jobPolicyKeys),
		"defaults.catch_up":     sorted(catchUpKeys),
		"defaults.retries":      sorted(retriesKeys),
		"defaults.notify":       sorted(notifyKeys),
		"pools.default":         sorted(poolKeys),
		"pools.default.http":    sorted(requestKeys),
		"pools.default.per_key": sorted(perKeyKeys),
		"pools.default.retries": sorted(retriesKeys),
	} {
		for _, key := range keys {
			if _, found := descend(nil, doc.Content[0], strings.TrimPrefix(path+"."+key, ".")); !found {
				t.Errorf("%s: %s is missing", path, key)
			}
		}
	}
	for key := range jobKeys {
		_, policy := jobPolicyKeys[key]
		_, doing := doingKeys[key] // shown with the pools
		_, tick := descend(nil, doc.Content[0], "jobs.tick."+key)
		_, letters := descend(nil, doc.Content[0], "jobs.write-letters."+key)
		if !policy && !doing && !tick && !letters {
			t.Errorf("jobs: %s is missing", key)
		}
	}
}

func sorted[T any](s schema[T]) []string { return slices.Sorted(maps.Keys(s)) }
