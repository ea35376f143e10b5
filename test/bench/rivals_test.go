package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// competitor is another task queue, which a program of its own measures: see folder rivals.
type competitor struct {
	name, queue string
	at          func(r *round) string
	drains      int // at most: how many tasks it drains
}

var rivals = []competitor{
	{"River on PostgreSQL, as shipped", "river", onPostgres, 5_000},
	{"River on PostgreSQL, tuned", "river-tuned", onPostgres, 1 << 30},
	{"asynq on Redis, nothing on disk", "asynq", func(r *round) string { return servers.NewRedis(r).Addr }, 1 << 30},
}

func onPostgres(r *round) string { return servers.Postgres(r) }

// measured is what the program prints.
type measured struct {
	Drain, Processor     float64
	Single, Beside, Bulk float64
	Pickups, Enqueues    samples
	Late                 samples
}

// measure runs the program.
func (v competitor) measure(r *round, what string, args ...any) (m measured) {
	r.Helper()
	program, err := rivalsProgram()
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 6*time.Minute)
	defer cancel()
	line := []string{"-queue", v.queue, "-at", v.at(r), "-what", what, "-workers", fmt.Sprint(drainWorkers)}
	for _, a := range args {
		line = append(line, fmt.Sprint(a))
	}
	cmd := exec.CommandContext(ctx, program, line...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	if err != nil {
		r.Fatalf("%s: %v", v.name, err)
	}
	return m
}

// rivalsDir has the program, once it was built; TestMain removes it.
var rivalsDir string

var rivalsProgram = sync.OnceValues(func() (program string, err error) {
	if rivalsDir, err = os.MkdirTemp("", "lockstep-rivals-"); err != nil {
		return "", err
	}
	program = filepath.Join(rivalsDir, "rivals")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = "rivals"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build rivals: %w\n%s", err, out)
	}
	return program, nil
})

// TestRivals shows that the program measures each of them: with as little as it takes.
func TestRivals(t *testing.T) {
	for _, v := range rivals {
		t.Run(v.queue, func(t *testing.T) {
			r := &round{TB: t}
			defer r.end()
			if m := v.measure(r, "drain", "-n", 200); m.Drain <= 0 || m.Processor <= 0 {
				t.Errorf("it drained %v tasks a second, with %v s of the processor for each", m.Drain, m.Processor)
			}
		})
	}
}
