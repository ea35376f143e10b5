package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/process"
)

var (
	// ErrLate: the command was not started, as its StartBy has passed.
	ErrLate = errors.New("too late to start it")
	// ErrGone: the warden has ended, and nothing was started.
	ErrGone = errors.New("the warden has ended")
	// ErrDied: the warden ended before its report of the command, and the command with it.
	ErrDied = errors.New("the warden ended, and the command was killed with it")
)

// patience is how long a warden may take to answer; then it is killed.
const patience = 10 * time.Second

// killLeftoversFor is how long processes of an ended warden are looked for while more are found: a process that
// is being killed may have started another.
const killLeftoversFor = time.Second

// environment of a warden is empty. Commands run as the same user, and may read the environment of their
// parent.
var environment = []string{}

// Warden is the warden's process, on the side of the replica. It lives as long as the replica, and is not
// closed.
//
//	Spawn ──▶ serves: takes orders, sends reports ──▶ gone: it has ended, or does not answer ──▶ killed, with its commands
//
// Commands whose end it has not reported by then end with ErrDied.
type Warden struct {
	stream *stream
	pid    int

	mu       sync.Mutex
	last     uint64
	attempts map[uint64]*Attempt
	gone     bool
}

// PlainLog in the environment of a warden makes it log lines of text, beside the messages of a command for people.
const PlainLog = "LOCKSTEP_WARDEN_LOG=plain"

// Spawn starts a warden: this program once more, under the name process.Warden. Its main must call Run then. plain is PlainLog.
func Spawn(plain bool) (*Warden, error) {
	environ := environment
	if plain {
		environ = append(slices.Clip(environ), PlainLog)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start the warden: %w", os.NewSyscallError("socketpair", err))
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "warden"), os.NewFile(uintptr(pair[1]), "replica")
	defer theirs.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", // this program, also after an upgrade of the file
		Args: []string{process.Warden, "of", process.Self().Tag()}, Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		Env:         environ,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // signals to the group or terminal of the replica do not reach it
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

// Gone reports whether the warden is known to have ended.
func (w *Warden) Gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// PID is the number of its process.
func (w *Warden) PID() int { return w.pid }

// listen reads reports until the warden has ended, and then kills what its commands have left.
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
		w.receive(r)
	}
	_ = w.stream.conn.Close()
	_ = cmd.Process.Kill() // the kernel kills the commands
	_ = cmd.Wait()
	w.mu.Lock()
	w.gone = true
	left := w.attempts
	w.attempts = nil
	w.mu.Unlock()
	killLeftovers(left)
	for _, a := range left {
		a.end = End{Err: ErrDied}
		close(a.ended)
	}
}

func (w *Warden) receive(r report) {
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
		a.end = End{Status: syscall.WaitStatus(r.Status), Why: r.Why, Errno: syscall.Errno(r.Errno)}
		close(a.ended)
	}
	if r.Ended || r.PID == 0 {
		delete(w.attempts, r.ID)
	}
}

// Moves returns the deadline of a command, as Command.Until; the channel is closed when it has moved.
type Moves func() (until []boottime.Stamp, moved <-chan struct{})

// Start starts a command, which writes to out and reads in, nil for nothing; the caller closes them afterwards. Standard
// error goes to errs, or to out if that is nil.
// With moves, not nil, its deadline moves until it has been started. An Errno says why it cannot be started,
// ErrLate that it is too late, and ErrGone to try it with another warden.
func (w *Warden) Start(c Command, moves Moves, in, out, errs *os.File) (*Attempt, error) {
	a := &Attempt{w: w, marks: c.Marks, folder: c.Folder, started: make(chan report, 1), ended: make(chan struct{})}
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
	if c.Stderr = errs != nil; c.Stderr {
		files = append(files, errs)
	}
	if c.Group = c.Folder != nil; c.Group {
		files = append(files, c.Folder)
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
	for {
		select {
		case r := <-a.started:
			return a.begun(r)
		case <-moved:
			var until []boottime.Stamp
			until, moved = moves()
			a.Move(until)
		case <-answer.C:
			w.give() // which ends it, unless it has answered meanwhile
		case <-a.ended:
			select {
			case r := <-a.started: // and ended already
				return a.begun(r)
			default:
				return nil, a.end.Err
			}
		}
	}
}

func (w *Warden) forget(a *Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.attempts, a.id)
}

// give gives the warden up: it was not reached, or does not answer. The next command gets another one, also
// before the end of this one was noticed.
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

// killLeftovers kills the processes that the commands of an ended warden have left: their groups and, by the
// marks, those outside. They are children of init now.
//
// It cannot be interrupted: it returns after killLeftoversFor, and until then the attempts have not ended.
func killLeftovers(left map[uint64]*Attempt) {
	looks := time.NewTicker(looked)
	defer looks.Stop()
	for began := time.Now(); time.Since(began) < killLeftoversFor; <-looks.C {
		found := false
		for _, a := range left {
			found = a.group > 0 && unix.Kill(-a.group, unix.SIGKILL) == nil || found
			if a.folder != nil {
				g := group(a.folder.Fd())
				g.kill()
				found = !g.empty() || found
			}
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
