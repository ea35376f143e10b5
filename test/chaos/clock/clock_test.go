//go:build linux

package clock_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/clock"
)

// A program that was built with the clock shows its time at once, while it runs; its monotonic time does not
// move. A normal build, and one without a clock, show the machine's time.
func TestStep(t *testing.T) {
	dir := t.TempDir()
	args, err := clock.Overlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clock.New(filepath.Join(dir, "offset"))
	if err != nil {
		t.Fatal(err)
	}
	stepped := build(t, args...)
	with := start(t, stepped, c.Env())
	without := start(t, stepped)
	normal := start(t, build(t), c.Env())
	for _, d := range []time.Duration{0, 5 * time.Second, -5 * time.Second, time.Hour, -time.Hour - 500*time.Millisecond, 0} {
		if err := c.Step(d); err != nil {
			t.Fatal(err)
		}
		with.wantAhead(t, d)
		without.wantAhead(t, 0)
		normal.wantAhead(t, 0)
	}
}

func build(t *testing.T, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", program}, args...), "./testdata/clock")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return program
}

type program struct {
	ask    io.Writer
	answer *bufio.Reader
	began  time.Time // a little after it looked for the first time
}

func start(t *testing.T, path string, env ...string) *program {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = t.Output()
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ask.Close() // it ends with its input
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	p := &program{ask: ask, answer: bufio.NewReader(answer)}
	p.now(t)
	p.began = time.Now()
	return p
}

// now is the wall time of the program, and for how long it has run by two ways of asking.
func (p *program) now(t *testing.T) (wall time.Time, ran, since time.Duration) {
	t.Helper()
	var ns int64
	if _, err := fmt.Fprintln(p.ask); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(p.answer, &ns, &ran, &since); err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, ns), ran, since
}

func (p *program) wantAhead(t *testing.T, d time.Duration) {
	t.Helper()
	before := time.Now()
	wall, ran, since := p.now(t)
	after := time.Now()
	if wall.Before(before.Round(0).Add(d-time.Millisecond)) || wall.After(after.Round(0).Add(d+time.Millisecond)) {
		t.Errorf("the clock shows %v, the machine's %v, %v was wanted between them", wall, after, d)
	}
	const loaded = 10 * time.Second // for which this machine may leave a process alone at most
	for _, ran := range []time.Duration{ran, since} {
		if real := after.Sub(p.began); ran < before.Sub(p.began) || ran > real+loaded {
			t.Errorf("by monotonic time it ran for %v, really for %v", ran, real)
		}
	}
}
