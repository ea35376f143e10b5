package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/processors"
)

// pulse does, over and over, the least that running a job needs of the machine: it writes a few bytes to
// the disk and starts a shell, and looks how much of the processors others on the same hardware took. By what that
// took longer than usual, or by what they took, no scheduler could have been faster.
type pulse struct {
	mu     sync.Mutex
	stalls []stall
}

// stall is the time from which on a round of a pulse took longer than usual, or was not ours, until its end.
type stall struct{ from, to time.Time }

const (
	pulseEvery = 100 * time.Millisecond
	pulseUsual = 100 * time.Millisecond
	pulseMost  = time.Second // that it excuses: who needs more has something to explain
)

// feel begins a pulse that ends with the test.
func feel(t *testing.T, dir string) *pulse {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "pulse"))
	if err != nil {
		t.Fatal(err)
	}
	p := &pulse{}
	read, err := processors.Read()
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		defer file.Close()
		last := time.Now()
		for {
			began := time.Now()
			now, err := beat(file)
			if err != nil {
				t.Error(err)
				return
			}
			p.felt(last, began, time.Now(), now.TakenSince(read))
			last, read = time.Now(), now
			select {
			case <-end:
				return
			case <-time.After(pulseEvery):
			}
		}
	})
	t.Cleanup(func() { close(end); beating.Wait() })
	return p
}

func beat(file *os.File) (now processors.Reading, err error) {
	if _, err := file.WriteAt([]byte("beat"), 0); err != nil {
		return now, err
	}
	if err := file.Sync(); err != nil {
		return now, err
	}
	if err := exec.Command("/bin/sh", "-c", ":").Run(); err != nil {
		return now, err
	}
	return processors.Read()
}

// felt takes note of a round that began at a moment, after the one before had ended at last, of which time others
// took a part.
func (p *pulse) felt(last, began, ended time.Time, part float64) {
	lost := max(ended.Sub(began)-pulseUsual, time.Duration(part*float64(ended.Sub(last))))
	if lost <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls = append(p.stalls, stall{ended.Add(-lost), ended})
}

// stalled is for how long the machine kept everybody waiting between two moments, at most pulseMost.
func (p *pulse) stalled(from, to time.Time) (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stalls {
		begins, ends := s.from, s.to
		if begins.Before(from) {
			begins = from
		}
		if ends.After(to) {
			ends = to
		}
		sum += max(0, ends.Sub(begins))
	}
	return min(sum, pulseMost)
}

func TestPulse(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	p := &pulse{}
	p.felt(at(0), at(0), at(100), 0) // as usual
	p.felt(at(1000), at(1000), at(1300), 0)
	p.felt(at(2000), at(2000), at(2500), 0)
	p.felt(at(5000), at(5000), at(9000), 0)
	p.felt(at(9900), at(10000), at(10100), 0.5)
	p.felt(at(10100), at(10200), at(10500), 0.25) // less than what it took longer
	for _, c := range []struct{ from, to, want int }{
		{0, 900, 0},
		{0, 3000, 600},
		{1000, 1200, 100},
		{1200, 2200, 200},
		{2500, 3000, 0},
		{4000, 9000, 1000},
		{9500, 10100, 100},
		{10200, 10600, 200},
	} {
		if got := p.stalled(at(c.from), at(c.to)).Milliseconds(); got != int64(c.want) {
			t.Errorf("from %d to %d: %d ms, want %d", c.from, c.to, got, c.want)
		}
	}
}
