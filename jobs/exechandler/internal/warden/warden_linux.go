package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/process"
)

var (
	// ErrLate: the command was not started, as it is too late for it.
	ErrLate = errors.New("too late to start it")
	// ErrGone: the warden is dead, and nothing was started.
	ErrGone = errors.New("the warden is gone")
	// ErrDied: the warden died before it could say how the command ended, and the command with it.
	ErrDied = errors.New("the process that ran it, the warden, died, and the command was killed with it")
)

// patience is how long a warden may take to answer; one that does not is killed.
const patience = 10 * time.Second

// buryFor is how long what a dead warden has left is looked for while more of it is found: who is being
// killed may have started somebody a moment before.
const buryFor = time.Second

// environment is a warden's: nothing. Commands run as the same user, and may read that of their parent.
var environment = []string{}

// Warden is a warden's process, as its replica sees it. It lives as long as the replica, and is not
// closed.
type Warden struct {
	stream *stream
	pid    int

	mu       sync.Mutex
	last     uint64
	attempts map[uint64]*Attempt
	gone     bool
}

// Spawn starts a warden: this program once more, under the name process.Warden. Its main must call Run then.
func Spawn() (*Warden, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start the warden: %w", os.NewSyscallError("socketpair", err))
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "warden"), os.NewFile(uintptr(pair[1]), "replica")
	defer theirs.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", // this very program, also after an upgrade of the file
		Args: []string{process.Warden, "of", process.Self().Tag()}, Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		Env:         environment,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // what ends the replica's group or terminal leaves it alone
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the warden: %w", err)
	}
	s, err := newStream(ours)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("start the warden: %w", err)
	}
	s.patient = patience
	w := &Warden{stream: s, pid: cmd.Process.Pid, attempts: map[uint64]*Attempt{}}
	go w.listen(cmd)
	return w, nil
}

// Gone reports whether the warden is dead, as far as is known.
func (w *Warden) Gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// listen reads reports until the warden is dead, and then kills what it has left.
func (w *Warden) listen(cmd *exec.Cmd) {
	for {
		body, err := w.stream.next()
		if err != nil {
			break
		}
		var r report
		if json.Unmarshal(body, &r) != nil {
			break
		}
		w.hear(r)
	}
	_ = w.stream.conn.Close()
	_ = cmd.Process.Kill() // the kernel kills the commands
	_ = cmd.Wait()
	w.mu.Lock()
	w.gone = true
	left := w.attempts
	w.attempts = nil
	w.mu.Unlock()
	bury(left)
	for _, a := range left {
		a.end = End{Err: ErrDied}
		close(a.ended)
	}
}

func (w *Warden) hear(r report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.attempts[r.ID]
	if a == nil {
		return
	}
	if !r.Ended {
		a.group = r.PID
		a.started <- r
	} else {
		a.end = End{Status: syscall.WaitStatus(r.Status), Why: r.Why}
		close(a.ended)
	}
	if r.Ended || r.PID == 0 {
		delete(w.attempts, r.ID)
	}
}

// Moves says when a command's time is over, as Command.Until does; the channel is closed when that has moved.
type Moves func() (until []boottime.Stamp, moved <-chan struct{})

// Start starts a command, which writes to out and reads in, nil for nothing; the caller closes them
// afterwards. With moves, not nil, its time moves until it has been started. An Errno says why it cannot be
// started, ErrLate that it must not be, and ErrGone to try it with another warden.
func (w *Warden) Start(c Command, moves Moves, in, out *os.File) (*Attempt, error) {
	a := &Attempt{w: w, marks: c.Marks, started: make(chan report, 1), ended: make(chan struct{})}
	w.mu.Lock()
	if w.gone {
		w.mu.Unlock()
		return nil, ErrGone
	}
	w.last++
	a.id = w.last
	w.attempts[a.id] = a
	w.mu.Unlock()
	var moved <-chan struct{}
	if moves != nil {
		c.Until, moved = moves()
	}
	files := []*os.File{out}
	if c.Stdin = in != nil; c.Stdin {
		files = []*os.File{in, out}
	}
	message, err := frame(order{ID: a.id, Start: &c})
	if err != nil {
		w.forget(a)
		return nil, syscall.E2BIG
	}
	if err := w.stream.send(message, files...); err != nil {
		w.forget(a)
		w.give()
		return nil, ErrGone
	}
	answer := time.NewTimer(w.stream.patient)
	defer answer.Stop()
	for waiting := true; waiting; {
		select {
		case r := <-a.started:
			return a.begun(r)
		case <-moved:
			var until []boottime.Stamp
			until, moved = moves()
			a.Move(until)
		case <-a.ended:
			waiting = false
		case <-answer.C:
			w.give()
			select { // it may have answered meanwhile, that it did not start: then nothing ends
			case r := <-a.started:
				return a.begun(r)
			case <-a.ended:
				waiting = false
			}
		}
	}
	select {
	case r := <-a.started: // and ended already
		return a.begun(r)
	default:
		return nil, a.end.Err
	}
}

func (w *Warden) forget(a *Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.attempts, a.id)
}

// give gives the warden up: what it was sent did not arrive, or it does not answer.
// The next command gets another one, also before this one's end was noticed.
func (w *Warden) give() {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	_ = w.stream.conn.Close()
}

func (w *Warden) order(o order) {
	message, err := frame(o)
	if err == nil {
		err = w.stream.send(message)
	}
	if err != nil {
		w.give()
	}
}

// bury kills what the commands of a dead warden have left: their groups, and by the marks what left
// these. They have no parent of ours any more.
//
// Nobody can interrupt it, and nobody needs to: it is over after buryFor, and until then the attempts
// have not ended.
func bury(left map[uint64]*Attempt) {
	looks := time.NewTicker(looked)
	defer looks.Stop()
	for began := time.Now(); time.Since(began) < buryFor; <-looks.C {
		found := false
		for _, a := range left {
			found = a.group > 0 && unix.Kill(-a.group, unix.SIGKILL) == nil || found
		}
		if len(left) > 0 {
			for pid := range listProcesses() {
				for _, a := range left {
					if marked(pid, a.marks) {
						found = unix.Kill(pid, unix.SIGKILL) == nil || found
					}
				}
			}
		}
		if !found {
			return
		}
	}
}
