//go:build linux

package arena

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/clock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Replica is one replica of the cell: one process at a time, always with the same id, address and command line.
// A process that ends without being stopped is started again after a second, as by service managers. Its
// methods may be called at any time.
type Replica struct {
	ID         string
	Config     string         // file; read at each start
	StoreEdges []*proxy.Proxy // none on SQLite
	LockEdges  []*proxy.Proxy // one for each server; none where the lock is in the store
	Clock      *clock.Clock   // nil: the machine's

	first   string // file: the first content of Config, for what must not find an invalid one
	arena   *Arena
	address string

	mu      sync.Mutex
	now     *process // the last one, running or not; nil before the first
	wanted  bool     // it shall run
	twins   []*process
	beside  map[string]int // processes beside it that use its edges, by name
	number  int
	joining sync.WaitGroup
}

// process is one process of a replica.
type process struct {
	cmd    *exec.Cmd
	gone   chan struct{}
	record history.Process // guarded by the replica's mu
}

// URL is the address of the replica's API, whether it runs or not.
func (r *Replica) URL() string { return "http://" + r.address }

// Start starts the replica and returns at once; WaitReady waits for it. An error says that it runs,
// or that there is no program.
func (r *Replica) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
	return r.start()
}

func (r *Replica) start() error {
	if r.now != nil && !r.now.ended() {
		return fmt.Errorf("start %s: it is running", r.ID)
	}
	p, err := r.launch(r.address)
	if err == nil {
		r.now = p
	}
	return err
}

// launch starts a process with the replica's id.
func (r *Replica) launch(address string) (*process, error) {
	r.number++
	name := fmt.Sprintf("%s-%d.log", r.ID, r.number)
	log, err := os.Create(filepath.Join(r.arena.Dir, history.LogsDir, name))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(r.arena.binary, "serve", "-c", r.Config, "--id", r.ID, "--listen", address)
	cmd.Dir = filepath.Dir(r.Config)
	cmd.Env = append(os.Environ(), "TMPDIR="+r.arena.tmp, "LOCKSTEP_DUMPABLE=true") // proxies find the owner of a connection in /proc
	if r.Clock != nil {
		cmd.Env = append(cmd.Env, r.Clock.Env())
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: cmd, gone: make(chan struct{})}
	p.record = history.Process{Replica: r.ID, Started: time.Now(), Log: name}
	if err := servers.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", r.ID, err)
	}
	p.record.PID = cmd.Process.Pid
	r.joining.Go(func() { r.attend(p) })
	return p, nil
}

// attend notes the end of a process, and starts another unless it was stopped.
func (r *Replica) attend(p *process) {
	_ = p.cmd.Wait() // its state says more
	r.mu.Lock()
	p.record.Ended, p.record.Exit = time.Now(), p.cmd.ProcessState.ExitCode()
	if p.record.How == "" {
		p.record.How = "ended"
	}
	close(p.gone)
	again := r.wanted && p == r.now
	record := p.record
	r.mu.Unlock()
	r.arena.note(r.arena.processes.Add(record))
	if !again {
		return
	}
	select {
	case <-time.After(time.Second):
	case <-r.arena.closing:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted && p == r.now {
		r.arena.note(r.start())
	}
}

// WaitReady returns when the replica has answered that it is ready.
func (r *Replica) WaitReady(ctx context.Context) error {
	for {
		if r.ready(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", r.ID, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// firstReady is WaitReady of the first process; if that ends, the error has the end of its log.
func (r *Replica) firstReady(ctx context.Context) error {
	r.mu.Lock()
	first := r.now
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-first.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := r.WaitReady(ctx)
	cancel()
	<-watching
	if err != nil && first.ended() {
		text, _ := os.ReadFile(filepath.Join(r.arena.Dir, history.LogsDir, first.record.Log))
		return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-2000):])
	}
	return err
}

func (r *Replica) ready(ctx context.Context) bool { return r.probe(ctx).Ready }

// sawReady notes when a process was first seen to be ready.
func (r *Replica) sawReady(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil && r.now.record.PID == pid && r.now.record.Ready.IsZero() {
		r.now.record.Ready = time.Now()
	}
}

// Twin starts a second process with the replica's id at another address, over the same edges, and returns its
// process id. The product must refuse it. It is not started again; Untwin ends it.
func (r *Replica) Twin() (pid int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.launch("127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	p.record.Twin = true
	r.twins = append(r.twins, p)
	return p.record.PID, nil
}

// Untwin kills the twins that still run, and reports how many had ended by themselves, and how many of
// those because they were refused beside the other one.
func (r *Replica) Untwin() (ended, refused int) {
	r.mu.Lock()
	twins := r.twins
	r.twins = nil
	for _, p := range twins {
		if p.ended() {
			ended++
			said, _ := os.ReadFile(filepath.Join(r.arena.Dir, history.LogsDir, p.record.Log)) // without it, nothing is shown
			if p.record.Exit != 0 && bytes.Contains(said, []byte("is live on host")) {
				refused++
			}
			continue
		}
		p.record.How = "killed"
		_ = p.cmd.Process.Kill()
	}
	r.mu.Unlock()
	for _, p := range twins {
		<-p.gone
	}
	return ended, refused
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// runsBeside notes a process that uses the replica's edges.
func (r *Replica) runsBeside(name string, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beside == nil {
		r.beside = map[string]int{}
	}
	r.beside[name] = pid
}

// Alive reports whether the replica's process runs; a frozen one does.
func (r *Replica) Alive() bool { return r.PID() != 0 }

// PID is the replica's process; 0: it does not run.
func (r *Replica) PID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || r.now.ended() {
		return 0
	}
	return r.now.record.PID
}

// Group is the replica's process and its helpers, which run the same program. Commands of jobs are not in it.
// Empty: it does not run.
func (r *Replica) Group() []int {
	pid := r.PID()
	if pid == 0 {
		return nil
	}
	group := []int{pid}
	for _, child := range descendants(pid) {
		if runs(child, r.arena.binary) {
			group = append(group, child)
		}
	}
	return group
}

// Signal sends the replica's process alone a signal.
func (r *Replica) Signal(s syscall.Signal) error { return r.send(s, r.PID()) }

// SignalGroup sends the replica and its helpers a signal.
func (r *Replica) SignalGroup(s syscall.Signal) error { return r.send(s, r.Group()...) }

func (r *Replica) send(s syscall.Signal, pids ...int) (err error) {
	if len(pids) == 0 || pids[0] == 0 {
		return fmt.Errorf("send %v to %s: it is not running", s, r.ID)
	}
	for _, pid := range pids {
		err = errors.Join(err, syscall.Kill(pid, s))
	}
	return err
}

// Kill ends the replica's process alone with SIGKILL, returns when it has ended, and does not start another.
func (r *Replica) Kill() error { return r.end("killed", r.Signal) }

// KillGroup is Kill of the replica and its helpers.
func (r *Replica) KillGroup() error { return r.end("group killed", r.SignalGroup) }

func (r *Replica) end(how string, send func(syscall.Signal) error) error {
	r.mu.Lock()
	r.wanted = false
	p := r.now
	if p != nil && !p.ended() {
		p.record.How = how
	}
	r.mu.Unlock()
	if err := send(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.gone
	return nil
}

// Drain stops the replica with SIGTERM, and does not start another. An error says that it had to be killed, or
// its exit code if not 0.
func (r *Replica) Drain(ctx context.Context) error {
	r.mu.Lock()
	r.wanted = false
	p := r.now
	if p == nil || p.ended() {
		r.mu.Unlock()
		return nil
	}
	p.record.Told, p.record.How = time.Now(), "drained"
	r.mu.Unlock()
	if err := r.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.gone:
	case <-ctx.Done():
		_ = r.KillGroup()
		return fmt.Errorf("drain %s: %w", r.ID, ctx.Err())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("drain %s: exit code %d", r.ID, code)
	}
	return nil
}
