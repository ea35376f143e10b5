package warden

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// TestMain is a warden where it is called one.
func TestMain(m *testing.M) {
	if os.Args[0] == process.Warden {
		if os.Getenv(threadsEnd) != "" {
			go endThreads()
		}
		if err := Run(slog.New(slog.DiscardHandler)); err != nil {
			os.Exit(1)
		}
		return
	}
	if os.Args[0] == process.Gate {
		Gate()
		return
	}
	os.Exit(m.Run())
}

// threadsEnd is set for a warden whose threads end all the time.
const threadsEnd = "WARDEN_TEST_THREADS_END"

func endThreads() {
	for {
		var locked sync.WaitGroup
		for range 8 {
			locked.Go(runtime.LockOSThread) // a thread ends with the goroutine that has it
		}
		locked.Wait()
		time.Sleep(time.Millisecond)
	}
}

// A command is killed when the thread ends that started it (PR_SET_PDEATHSIG): a warden starts all of them
// from one that does not.
func TestNoCommandEndsWithAThread(t *testing.T) {
	environment = []string{threadsEnd + "=1"}
	defer func() { environment = []string{} }()
	w, first := sleeper(t)
	attempts := []*Attempt{first}
	for range 50 {
		time.Sleep(5 * time.Millisecond) // threads change
		a, err := w.Start(Command{Program: "/bin/sleep", Argv: [][]byte{[]byte("sleep"), []byte("300")}}, nil, nil, os.Stderr, nil)
		if err != nil {
			t.Fatal(err)
		}
		attempts = append(attempts, a)
	}
	for i, a := range attempts {
		select {
		case <-a.Ended():
			t.Fatalf("command %d has ended: %+v", i, a.End())
		default:
		}
	}
	first.GiveUp()
	for _, a := range attempts {
		<-a.Ended()
	}
}

// sleeper is a warden and a command that it has started.
func sleeper(t *testing.T) (*Warden, *Attempt) {
	t.Helper()
	w, err := Spawn(false)
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.Start(Command{Program: "/bin/sleep", Argv: [][]byte{[]byte("sleep"), []byte("300")}}, nil, nil, os.Stderr, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w, a
}

// A warden without descriptors for a command's files reports that for the command, and continues with
// the others.
func TestNoDescriptorsForFiles(t *testing.T) {
	w, sleeping := sleeper(t)
	defer w.give()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(w.pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Prlimit(w.pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	start := func() error {
		in, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		a, err := w.Start(Command{Program: "/bin/true", Argv: [][]byte{[]byte("true")}}, nil, in, os.Stderr, nil)
		if err == nil {
			<-a.Ended()
		}
		return err
	}
	full := 0
	for more := range 8 {
		limit := unix.Rlimit{Cur: uint64(len(entries) + more - 1), Max: was.Max}
		if err := unix.Prlimit(w.pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		err := start()
		if err != nil && !errors.Is(err, unix.EMFILE) {
			t.Errorf("with room for %d: %v", more-1, err)
		}
		if err != nil {
			full++
		}
	}
	if full < 2 || full == 8 {
		t.Errorf("%d of 8 starts found no descriptors", full)
	}
	if err := unix.Prlimit(w.pid, unix.RLIMIT_NOFILE, &was, nil); err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil || w.Gone() {
		t.Errorf("with all of them: %v, gone: %v", err, w.Gone())
	}
	select {
	case <-sleeping.Ended():
		t.Errorf("the command that ran has ended: %+v", sleeping.End())
	default:
	}
}

// wantDied holds that the warden is given up soon, and with it all that it has started.
func wantDied(t *testing.T, w *Warden, a *Attempt) {
	t.Helper()
	select {
	case <-a.Ended():
	case <-time.After(15 * time.Second):
		t.Fatal("the command goes on")
	}
	if end := a.End(); !errors.Is(end.Err, ErrDied) && end.Why != Alone {
		t.Errorf("it ended with %+v", end)
	}
	await.Until(t, "the warden is gone", w.Gone)
	for _, pid := range []int{a.Group(), w.pid} {
		if p, alive := listProcesses()[pid]; alive {
			t.Errorf("%+v is still there", p)
		}
	}
	if _, err := w.Start(Command{Program: "/bin/true", Argv: [][]byte{nil}}, nil, nil, os.Stderr, nil); !errors.Is(err, ErrGone) {
		t.Errorf("the next command: %v, want ErrGone", err)
	}
}

func TestAWardenThatCannotUnderstand(t *testing.T) {
	for _, message := range []string{"\xff\xff\xff\xff", "\x00\x00\x00\x03[1]"} {
		w, a := sleeper(t)
		if err := w.stream.send([]byte(message)); err != nil {
			t.Fatal(err)
		}
		wantDied(t, w, a)
	}
	w, a := sleeper(t)
	noFiles, err := frame(order{ID: 7, Start: &Command{Program: "/bin/true", Argv: [][]byte{nil}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.stream.send(noFiles); err != nil {
		t.Fatal(err)
	}
	wantDied(t, w, a)
}

// freeze stops a warden, with all its threads.
func freeze(t *testing.T, w *Warden) {
	t.Helper()
	if err := syscall.Kill(w.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the warden stands still", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", w.pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("%v, threads %v", err, threads)
		}
		return !slices.ContainsFunc(threads, func(name string) bool {
			line, err := os.ReadFile(name)
			return err == nil && !strings.Contains(string(line), ") T ")
		})
	})
}

func TestAFrozenWardenIsGivenUp(t *testing.T) {
	w, a := sleeper(t)
	w.stream.patient = 300 * time.Millisecond
	freeze(t, w)
	if _, err := w.Start(Command{Program: "/bin/true", Argv: [][]byte{nil}}, nil, nil, os.Stderr, nil); !errors.Is(err, ErrDied) {
		t.Errorf("the next command: %v, want ErrDied: it may have been started", err)
	}
	wantDied(t, w, a)
}

// A warden that did not run for a while reads all orders before it compares deadlines, and
// before it starts a command.
func TestALateWardenHearsFirst(t *testing.T) {
	w, first := sleeper(t)
	defer first.GiveUp()
	over, later := boottime.Now().Add(2*time.Second), boottime.Now().Add(time.Hour)
	sleep := Command{Program: "/bin/sleep", Argv: [][]byte{[]byte("sleep"), []byte("300")}, Until: []boottime.Stamp{over.Stamp()}}
	var attempts []*Attempt
	for range 8 {
		a, err := w.Start(sleep, nil, nil, os.Stderr, nil)
		if err != nil {
			t.Fatal(err)
		}
		attempts = append(attempts, a)
	}
	freeze(t, w)
	for _, a := range attempts {
		a.Move([]boottime.Stamp{later.Stamp()})
	}
	var asked atomic.Int32 // a second call means that the first deadline was sent
	moved := make(chan struct{})
	close(moved)
	moves := func() ([]boottime.Stamp, <-chan struct{}) {
		switch asked.Add(1) {
		case 1:
			return sleep.Until, moved
		case 2:
			return []boottime.Stamp{later.Stamp()}, moved
		}
		return []boottime.Stamp{later.Stamp()}, nil
	}
	started := make(chan error, 1)
	go func() {
		a, err := w.Start(sleep, moves, nil, os.Stderr, nil)
		if err == nil {
			attempts = append(attempts, a)
		}
		started <- err
	}()
	await.Until(t, "the time of what is to be started has moved, and all others' is over", func() bool {
		return asked.Load() == 3 && over.Until() < 0
	})
	if err := syscall.Kill(w.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Errorf("what waited to be started: %v", err)
	}
	last, err := w.Start(Command{Program: "/bin/true", Argv: [][]byte{nil}}, nil, nil, os.Stderr, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-last.Ended()
	all := listProcesses()
	for i, a := range attempts {
		if _, alive := all[a.Group()]; !alive {
			t.Errorf("command %d was stopped, and its time had moved", i)
		}
	}
}

// A replica that stood still for longer than its patience finds that over and the answer there.
func TestAnAnswerWhenPatienceIsOver(t *testing.T) {
	for want, answer := range map[error]report{ErrLate: {ID: 1, Late: true}, syscall.ENOENT: {ID: 1, Errno: int(syscall.ENOENT)}} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		streams := make([]*stream, 2)
		for i, fd := range pair {
			if streams[i], err = newStream(os.NewFile(uintptr(fd), "end")); err != nil {
				t.Fatal(err)
			}
			defer streams[i].conn.Close()
		}
		streams[0].patient = 50 * time.Millisecond
		w := &Warden{stream: streams[0], attempts: map[uint64]*Attempt{}}
		started := make(chan error, 1)
		go func() {
			_, err := w.Start(Command{Program: "/none", Argv: [][]byte{nil}}, nil, nil, os.Stderr, nil)
			started <- err
		}()
		if _, err := streams[1].next(); err != nil {
			t.Fatal(err)
		}
		if _, err := streams[1].next(); !errors.Is(err, io.EOF) {
			t.Fatalf("%v, want the end: the warden is given up", err)
		}
		w.receive(answer)
		select {
		case err := <-started:
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%v: it waits for the end of what was not started", want)
		}
	}
}

// What is as large as a command line may be, and larger, gets through or is refused.
func TestLargeCommands(t *testing.T) {
	w, a := sleeper(t)
	defer a.Stop(0)
	for _, size := range []int{100_000, 3 << 20} {
		r, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		large, err := w.Start(Command{Program: "/bin/echo", Argv: [][]byte{nil, []byte(strings.Repeat("x", size))}}, nil, nil, out, nil)
		out.Close()
		text, _ := io.ReadAll(r)
		r.Close()
		if size > 1<<20 {
			if !errors.Is(err, syscall.E2BIG) {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue
		}
		if err != nil || len(text) != size+1 {
			t.Fatalf("%d bytes: %d came back, %v", size, len(text), err)
		}
		<-large.Ended()
	}
}

// A warden that was not reached is given up at once, so that the next command has another
// one, also before its end is noticed.
func TestAWardenThatDoesNotHear(t *testing.T) {
	w, a := sleeper(t)
	if err := w.stream.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Start(Command{Program: "/bin/true", Argv: [][]byte{nil}}, nil, nil, os.Stderr, nil); !errors.Is(err, ErrGone) {
		t.Errorf("the next command: %v, want ErrGone", err)
	}
	if !w.Gone() {
		t.Error("it counts as connected")
	}
	wantDied(t, w, a)
}

// A stop is sent at once, and the command is killed when the shortest of its grace periods is over.
func TestStop(t *testing.T) {
	w, a := sleeper(t)
	defer w.give()
	a.Move(nil) // changes nothing
	a.Stop(time.Hour)
	<-a.Ended()
	if end := a.End(); end.Err != nil || end.Why != Ordered || end.Status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %+v", end)
	}
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ignores, err := w.Start(Command{
		Program: "/bin/sh", Argv: [][]byte{[]byte("sh"), []byte("-c"), []byte(`exec 2>/dev/null; trap "echo term" TERM; echo ready; while :; do sleep 0.05; done`)}, Env: [][]byte{[]byte("PATH=/usr/bin:/bin")},
	}, nil, nil, out, nil)
	out.Close()
	if err != nil {
		t.Fatal(err)
	}
	said := func(want string) {
		buf := make([]byte, len(want))
		if _, err := io.ReadFull(r, buf); err != nil || string(buf) != want {
			t.Fatalf("it says %q, %v, want %q", buf, err, want)
		}
	}
	said("ready\n")
	ignores.Stop(time.Hour)
	said("term\n")
	ignores.Stop(0)
	ignores.Stop(time.Hour) // which does not make it later
	<-ignores.Ended()
	if end := ignores.End(); end.Err != nil || end.Why != Ordered || end.Status.Signal() != syscall.SIGKILL {
		t.Errorf("an attempt without an answer ended with %+v", end)
	}
}
