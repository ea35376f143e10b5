package config_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Jobs are read in parts, which nobody sees: all are there, and each problem is told once, in the order of the file.
func TestManyJobs(t *testing.T) {
	const n = 12_000
	file := func(wrong map[int]string) string {
		var b strings.Builder
		b.WriteString("version: 1\nx-labels: &labels {team: infra}\ndefaults: {retries: {on: [75]}}\njobs:\n")
		for i := range n {
			fmt.Fprintf(&b, "  job-%d: {command: [echo], labels: *labels, retries: {limit: %d}%s}\n", i, i%2, wrong[i])
		}
		return b.String()
	}
	c, err := config.LoadBytes("lockstep.yaml", []byte(file(nil)), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		job, has := c.Set.Jobs[fmt.Sprint("job-", i)]
		if !has || job.Labels["team"] != "infra" || len(job.Retries.On) != i%2 {
			t.Fatalf("job-%d is %+v, %t", i, job, has)
		}
	}
	wrong := map[int]string{3: ", timeout: soon", 11_000: ", timout: 1s", 5_001: ", schedule: '61 * * * *'", 11_999: ", pool: nowhere"}
	text := strings.Replace(file(wrong), "job-9000:", "JOB-10:", 1)
	text = strings.Replace(text, "{team: infra}", "{team: {a: b}}", 1)
	_, err = config.LoadBytes("lockstep.yaml", []byte(text), config.Options{})
	var bad config.Errors
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var lines []int
	for _, e := range bad {
		lines = append(lines, e.Line)
	}
	want := []int{2, 8, 5_006, 9_005, 11_005, 12_004}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("problems at lines %v, want %v: %v", lines, want, err)
	}
}

// counting is a handler that counts how many readers ask for its codes at the same time. The first ones wait for meets of them.
type counting struct {
	meets     int64
	now, most *atomic.Int64
	met       chan struct{}
	once      *sync.Once
}

func (counting) Run(context.Context, jobs.Task, io.Writer) error { return nil }

func (c counting) Codes() (low, high, timeout int) {
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	if now >= c.meets {
		c.once.Do(func() { close(c.met) })
	}
	select {
	case <-c.met:
	case <-time.After(10 * time.Second): // fewer read
		c.once.Do(func() { close(c.met) })
	}
	return 1, 255, 0
}

// No more readers work at the same time than Options say, and so many do.
func TestProcessors(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	for i := range 21_000 {
		fmt.Fprintf(&b, "  job-%d: {func: counted, retries: {limit: 1, on: [75]}}\n", i)
	}
	for _, n := range []int{1, 2} {
		h := counting{int64(n), new(atomic.Int64), new(atomic.Int64), make(chan struct{}), new(sync.Once)}
		c, err := config.LoadBytes("lockstep.yaml", []byte(b.String()), config.Options{Funcs: map[string]jobs.Handler{"counted": h}, Processors: n})
		if err != nil || len(c.Set.Jobs) != 21_000 || h.most.Load() != int64(n) {
			t.Errorf("%d of %d read at the same time, %v", h.most.Load(), n, err)
		}
	}
}

// Options.Opened is called by one goroutine, in the order of the file, also where several read the jobs of it.
func TestManyJobsWithFiles(t *testing.T) {
	folder := t.TempDir()
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	var want []string
	for i := range 12_000 {
		name := fmt.Sprintf("%d.env", i%100)
		fmt.Fprintf(&b, "  job-%d: {command: [echo], env_file: %s}\n", i, name)
		want = append(want, write(t, folder, name, "", 0o600))
	}
	var got []string
	_, err := config.LoadBytes(filepath.Join(folder, "lockstep.yaml"), []byte(b.String()), config.Options{Opened: func(path string, _ []byte) { got = append(got, path) }})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d files are told of, want %d: %v", len(got), len(want), err)
	}
}
