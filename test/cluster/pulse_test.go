package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// pulse repeats the least that a job needs of the machine: it writes a few bytes to the disk and starts a shell. When
// that is slow, no scheduler could be faster.
type pulse struct {
	mu     sync.Mutex
	stalls []stall
}

// stall is the time from which on a round of a pulse took longer than usual, until its end.
type stall struct{ from, to time.Time }

const (
	pulseEvery = 100 * time.Millisecond
	pulseUsual = 100 * time.Millisecond
	pulseMost  = time.Second // that it excuses: who needs more has something to explain
)

// startPulse begins a pulse that ends with the test.
func startPulse(t *testing.T, dir string) *pulse {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "pulse"))
	if err != nil {
		t.Fatal(err)
	}
	p := &pulse{}
	end := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		defer file.Close()
		for {
			began := time.Now()
			if err := beat(file); err != nil {
				t.Error(err)
				return
			}
			p.felt(began, time.Now())
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

func beat(file *os.File) error {
	if _, err := file.WriteAt([]byte("beat"), 0); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return exec.Command("/bin/sh", "-c", ":").Run()
}

func (p *pulse) felt(from, to time.Time) {
	if from = from.Add(pulseUsual); !from.Before(to) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls = append(p.stalls, stall{from, to})
}

// stalled is how long the machine was stalled between two moments, at most pulseMost.
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
	p.felt(at(0), at(100)) // as usual
	p.felt(at(1000), at(1300))
	p.felt(at(2000), at(2500))
	p.felt(at(5000), at(9000))
	for _, c := range []struct{ from, to, want int }{
		{0, 900, 0}, {0, 3000, 600}, {1000, 1200, 100}, {1200, 2200, 200}, {2500, 3000, 0}, {4000, 9000, 1000},
	} {
		if got := p.stalled(at(c.from), at(c.to)).Milliseconds(); got != int64(c.want) {
			t.Errorf("from %d to %d: %d ms, want %d", c.from, c.to, got, c.want)
		}
	}
}
