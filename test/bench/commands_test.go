package bench

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// commands is how many commands a second one kind of site runs.
type commands struct {
	kind kind
	rate samples
}

// BenchmarkCommands measures tasks that run /bin/true, from the start of a replica until the last end is acknowledged, beside xargs with as many
// processes at once.
func BenchmarkCommands(b *testing.B) {
	field := make([]*commands, len(kinds))
	for i, k := range kinds {
		field[i] = &commands{kind: k}
	}
	t := newTable(b, fmt.Sprintf("%s tasks that run /bin/true, %d at once", count(float64(sized().commands)), drainWorkers), "", "commands/s (min – max)", "× xargs")
	var xargs samples
	takeTurns(b, len(field)+1, func(r *round, i int) {
		if i < len(field) {
			field[i].turn(r)
			return
		}
		xargs = append(xargs, rate(sized().commands, func() {
			cmd := exec.CommandContext(r.Context(), "xargs", "-n1", fmt.Sprint("-P", drainWorkers), "/bin/true")
			cmd.Stdin = strings.NewReader(strings.Repeat("x\n", sized().commands))
			if out, err := cmd.CombinedOutput(); err != nil {
				r.Fatalf("%v: %s", err, bytes.TrimSpace(out))
			}
		}))
	})
	for _, d := range field {
		t.add(d.kind.name, d.rate.spread(count), count(d.rate.per(xargs).median()))
	}
	t.add("xargs", xargs.spread(count), "1.00")
	t.print()
}

func (d *commands) turn(r *round) {
	n := sized().commands
	h, err := exechandler.New(exechandler.Command{Argv: []string{"/bin/true"}})
	if err != nil {
		r.Fatal(err)
	}
	set := jobs.Set{Pools: map[string]jobs.Pool{drainPool: {Workers: drainWorkers, Handler: h}}}
	s := d.kind.open(r)
	st := s.store(r)
	s.define(r, st, set)
	fill(r, st, n, 0)
	m := &meter{finished: newMark(n)}
	replica := s.replica(r, "replica", m, set, drainWorkers)
	began := time.Now()
	run(r, replica)
	m.wait(r, "tasks done", &m.finished)
	m.mu.Lock()
	defer m.mu.Unlock()
	d.rate = append(d.rate, float64(n)/m.finished.at.Sub(began).Seconds())
}
