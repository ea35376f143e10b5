package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
)

// BenchmarkLoad measures reading a file with many jobs: parsed, checked, schedules compiled.
func BenchmarkLoad(b *testing.B) {
	n := sized().yamlJobs
	text := manyJobs(n)
	file := filepath.Join(b.TempDir(), "lockstep.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.Fatal(err)
	}
	field := []struct {
		name            string
		load            func() (int, any, error)
		took, allocated samples
		live            samples // heap after it, of what it returned
	}{
		{name: "yaml.v3: parse to nodes", load: func() (int, any, error) {
			var doc yaml.Node
			err := yaml.Unmarshal(text, &doc)
			return n, &doc, err
		}},
		{name: "**config.Load**, Lockstep", load: func() (int, any, error) {
			c, err := config.Load(file, config.Options{})
			if err != nil {
				return 0, nil, err
			}
			return len(c.Set.Jobs), c, nil
		}},
	}
	t := newTable(b, fmt.Sprintf("Load of %s jobs from YAML, %s MB", count(float64(n)), count(float64(len(text))/1e6)),
		"", "time (min – max)", "jobs/s", "MB allocated", "MB of live heap after it", "× raw (min – max)")
	takeTurns(b, len(field), func(r *round, i int) {
		c := &field[i]
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		own := inUse()
		began := time.Now()
		got, result, err := c.load()
		took := time.Since(began).Seconds()
		runtime.ReadMemStats(&after)
		if err != nil || got != n {
			r.Fatalf("%s: %d jobs, %v", c.name, got, err)
		}
		c.took = append(c.took, took)
		c.live = append(c.live, (inUse()-own)/1e6)
		runtime.KeepAlive(result)
		c.allocated = append(c.allocated, float64(after.TotalAlloc-before.TotalAlloc)/1e6)
	})
	for i, c := range field {
		ratio := "–"
		if i > 0 {
			ratio = c.took.per(field[0].took).spread(count)
		}
		t.add(c.name, c.took.spread(lasting), count(float64(n)/c.took.median()), count(c.allocated.median()), count(c.live.median()), ratio)
	}
	t.print()
}

func manyJobs(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	for i := range n {
		fmt.Fprintf(&b, `  job-%06d:
    schedule: "%d %d * * *"
    command: ["/bin/echo", "hello", "%d"]
    timeout: 10m
    labels: {team: infra}
`, i, i%60, i/60%24, i)
	}
	return []byte(b.String())
}
