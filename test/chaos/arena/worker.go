//go:build linux

package arena

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Worker is a process that takes the tasks of the pool of workers over HTTP, from any replica: one at a time, and another one a second after
// one has ended. Its methods may be called at any time.
type Worker struct {
	Name  string         // "w1"
	Edges []*proxy.Proxy // to each replica

	arena *Arena

	mu     sync.Mutex
	now    *exec.Cmd // nil: none runs
	killed bool      // by Kill
	held   bool      // none is started
	number int
}

// workersOfRun is how many there are. With their slots they can run more than the pool's max_running.
const workersOfRun = 3

// openWorkers makes the workers, and their edges.
func (a *Arena) openWorkers() error {
	for i := range workersOfRun {
		w := &Worker{Name: fmt.Sprintf("w%d", i+1), arena: a}
		a.Workers = append(a.Workers, w)
		for _, r := range a.Replicas {
			edge, err := proxy.Listen(r.address)
			if err != nil {
				return err
			}
			w.Edges = append(w.Edges, edge)
		}
	}
	return nil
}

// Serve runs the workers until ctx ends. An error says that one has ended by itself, or could not be started.
func (a *Arena) Serve(ctx context.Context) error {
	log, err := history.OpenLog[history.Worker](a.Dir, history.WorkersFile)
	if err != nil {
		return err
	}
	defer log.Close()
	failed := make([]error, len(a.Workers))
	var running sync.WaitGroup
	for i, w := range a.Workers {
		running.Go(func() { failed[i] = w.serve(ctx, log) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// serve runs one process after the other:
//
//  1. start it, and wait until it ends, or ctx does; then tell it to stop, and wait for its end
//  2. note it, and wait a second, and until it may be started again
func (w *Worker) serve(ctx context.Context, log *history.Log[history.Worker]) error {
	for ctx.Err() == nil {
		record, err := w.process(ctx)
		if err == nil {
			err = log.Add(record)
		}
		if err == nil && record.How == "ended" {
			err = fmt.Errorf("%s ended by itself, %s says why", record.Name, record.Log)
		}
		if err != nil {
			return err
		}
		for wait := time.Second; ctx.Err() == nil && (wait > 0 || w.isHeld()); wait -= 50 * time.Millisecond {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// stopTime is how long a worker may take to finish what it runs, and to say so.
const stopTime = 20 * time.Second

// process runs one.
func (w *Worker) process(ctx context.Context) (record history.Worker, err error) {
	w.number++
	record = history.Worker{Name: fmt.Sprintf("%s.%d", w.Name, w.number), Started: time.Now()}
	record.Log = "worker-" + record.Name + ".log"
	out, err := os.Create(filepath.Join(w.arena.Dir, history.LogsDir, record.Log))
	if err != nil {
		return record, err
	}
	defer out.Close()
	var urls []string
	for _, e := range w.Edges {
		urls = append(urls, "http://"+e.Addr())
	}
	cmd := exec.Command(w.arena.worker, "-dir", w.arena.Dir, "-name", record.Name, "-pool", poolOfWorkers, "-replicas", strings.Join(urls, ","))
	cmd.Stdout, cmd.Stderr = out, out
	if err := servers.Start(cmd); err != nil {
		return record, fmt.Errorf("%s: %w", record.Name, err)
	}
	record.PID = cmd.Process.Pid
	w.mu.Lock()
	w.now, w.killed = cmd, false
	w.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // its state says more
	}()
	record.How = "ended"
	select {
	case <-gone:
	case <-ctx.Done():
		record.How = "stopped"
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may just have been killed
		select {
		case <-gone:
		case <-time.After(stopTime):
			err = errors.Join(fmt.Errorf("%s did not stop within %v", record.Name, stopTime), cmd.Process.Kill())
			<-gone
		}
	}
	record.Ended, record.Exit = time.Now(), cmd.ProcessState.ExitCode()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now = nil; w.killed {
		record.How = "killed"
	}
	return record, err
}

func (w *Worker) isHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

// PID is the worker's process; 0: none runs.
func (w *Worker) PID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		return 0
	}
	return w.now.Process.Pid
}

// Kill ends the worker's process with SIGKILL. No other one is started until Release.
func (w *Worker) Kill() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		return fmt.Errorf("kill %s: it is not running", w.Name)
	}
	w.killed, w.held = true, true
	return w.now.Process.Kill()
}

// Release lets another process start after Kill.
func (w *Worker) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
}

// AtWork is how many tasks each worker runs, by its name, as a replica says.
func (a *Arena) AtWork(ctx context.Context) (map[string]int, error) {
	var page struct{ Items []struct{ Replica string } }
	status, text := 0, []byte(nil)
	for _, r := range a.Replicas {
		if status, text = r.look(ctx, "/api/v1/tasks?limit=100&state=running&pool="+poolOfWorkers); status == http.StatusOK {
			break
		}
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("ask for the tasks of workers: status %d: %.100q", status, text)
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, fmt.Errorf("ask for the tasks of workers: %w", err)
	}
	all := map[string]int{}
	for _, t := range page.Items {
		all[cmp.Or(history.WorkerNamed(t.Replica), t.Replica)]++
	}
	return all, nil
}

// closeWorkers kills what is left of them, and closes their edges.
func (a *Arena) closeWorkers() (err error) {
	for _, w := range a.Workers {
		if w.PID() != 0 {
			_ = w.Kill() // it may just have ended
		}
		for _, e := range w.Edges {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}
