package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 60 * time.Second // a JVM on a busy machine
	stopLimit  = 20 * time.Second
)

// instance is one server process with its folder and its port. The exported server types embed it.
type instance struct {
	name  string                                       // of the product, for messages
	dir   string                                       // everything the server writes
	port  int                                          // chosen at the first start, kept over restarts
	tb    testing.TB                                   // the test that owns it; nil for a shared one
	argv  func(s *instance) ([]string, error)          // the command line; may write files into dir
	ready func(ctx context.Context, s *instance) error // nil once this process answers
	owner *account                                     // its account; nil: that of the test
	clock *Clock                                       // its wall clock; nil for the machine's
	disk  *Disk                                        // where its data is; nil: in dir
	mute  bool                                         // its log does not have the reason of its end
	more  []string                                     // arguments of the next start alone
	env   []string                                     // its environment; nil: that of the clock

	mu   sync.Mutex
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
}

// open makes the folder, starts the server and waits until it answers.
func (s *instance) open() error {
	if err := admit(s); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	dir, err := os.MkdirTemp("", "lockstep-"+strings.ToLower(s.name)+"-")
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.dir = dir
	if s.owner != nil {
		if err := os.Chown(dir, int(s.owner.uid), int(s.owner.gid)); err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
	}
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		if err = s.start(context.Background()); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

var errPortTaken = errors.New("another process took the port first")

// start runs the server on its port and waits until it answers. One that has not done so when ctx ends
// is killed.
func (s *instance) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive() {
		return fmt.Errorf("start %s: it is running", s.name)
	}
	argv, err := s.argv(s)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	defer log.Close()
	before, _ := log.Seek(0, 2)

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.env
	if s.env == nil {
		cmd.Env = s.clock.environ()
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes(s.owner)
	if err := onKeeper(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(gone)
	}()
	s.cmd, s.gone = cmd, gone

	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		err := s.ready(try, s)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			if text := s.tail(before); strings.Contains(strings.ToLower(text), "already in use") {
				return fmt.Errorf("start %s: %w", s.name, errPortTaken)
			}
			if s.mute { // most likely that
				return fmt.Errorf("start %s: it ended at once; %w, or something that its log does not say:\n%s", s.name, errPortTaken, s.tail(before))
			}
			return fmt.Errorf("start %s: it ended at once, its log says:\n%s", s.name, s.tail(before))
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			<-gone
			return fmt.Errorf("start %s: no answer in %v (%w), its log says:\n%s", s.name, startLimit, err, s.tail(before))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Start runs the server again, on the same port and folder, and returns when it answers.
func (s *instance) Start() {
	s.tb.Helper()
	if err := s.Restart(context.Background()); err != nil {
		s.tb.Fatal(err)
	}
}

// Restart is Start with an error. It waits no longer than ctx, and never longer than Start.
func (s *instance) Restart(ctx context.Context) error { return s.start(ctx) }

// Kill ends the server with SIGKILL and returns when it is gone.
func (s *instance) Kill() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(syscall.SIGKILL)
	<-s.gone
}

// Stop ends the server with SIGTERM, and returns when it has ended.
func (s *instance) Stop() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.gone:
	case <-time.After(stopLimit):
		s.tb.Fatalf("stop %s: still there %v after SIGTERM", s.name, stopLimit)
	}
}

// PID is the server's process; 0: it does not run.
func (s *instance) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alive() {
		return 0
	}
	return s.cmd.Process.Pid
}

// Pause freezes the server (SIGSTOP): connections stay open, without answers.
func (s *instance) Pause() { s.tb.Helper(); s.locked(sigStop) }

// Continue ends what Pause began.
func (s *instance) Continue() { s.tb.Helper(); s.locked(sigCont) }

func (s *instance) locked(sig syscall.Signal) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(sig)
}

func (s *instance) signal(sig syscall.Signal) {
	s.tb.Helper()
	if !s.alive() {
		s.tb.Fatalf("send %v to %s: it is not running", sig, s.name)
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatalf("send %v to %s: %v", sig, s.name, err)
	}
}

// remove ends the server in any state, and deletes its folder: its data is not needed after the test.
func (s *instance) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive() {
		_ = s.cmd.Process.Kill()
		<-s.gone
	}
	_ = os.RemoveAll(s.dir)
}

func (s *instance) alive() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.gone:
		return false
	default:
		return true
	}
}

func (s *instance) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *instance) log() string { return filepath.Join(s.dir, "server.log") }

// tail is the end of what the server has logged since position from.
func (s *instance) tail(from int64) string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	text = text[min(from, int64(len(text))):]
	return string(text[max(0, len(text)-4096):])
}

// freePort picks below the range that systems use for outgoing connections. In that range a client that keeps
// dialling a stopped server can get the server's own port and connect to itself.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 12000 + rand.IntN(20000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// FreeAddress is an address of this machine without a listener.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// ask sends a line to a server with a text protocol and returns what it answers until it closes.
func ask(ctx context.Context, addr, line string) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	return tell(ctx, c, line)
}

// tell sends a line and returns the answer until the server closes. Then it closes too.
func tell(ctx context.Context, c net.Conn, line string) (string, error) {
	defer c.Close()
	if until, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(until)
	}
	if _, err := c.Write([]byte(line)); err != nil {
		return "", err
	}
	var answer strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		answer.Write(buf[:n])
		if err != nil {
			if answer.Len() > 0 {
				return answer.String(), nil
			}
			return "", err
		}
	}
}
