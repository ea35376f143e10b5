package warden

import (
	"encoding/binary"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/process"
)

// launch starts the process of c, in its control group and with its niceness from the first instruction on. If its address space is
// limited, or a clone in a group is refused, that is a gate, which becomes the program.
func (k *keeper) launch(c *charge, command Command, files []int) (pid int, err error) {
	in := k.null
	if command.Stdin {
		in, files = files[0], files[1:]
	}
	out, errs := files[0], files[0]
	if command.Stderr {
		errs = files[1]
	}
	attr := &syscall.ProcAttr{
		Dir: command.Dir, Env: texts(command.Env), Files: []uintptr{uintptr(in), uintptr(out), uintptr(errs)},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if command.Group {
		own, err := unix.FcntlInt(uintptr(files[len(files)-1]), unix.F_DUPFD_CLOEXEC, 0) // files are closed after the start
		if err != nil {
			return 0, err
		}
		c.group, attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = group(own), !command.Enter, own
	}
	program, argv := command.Program, texts(command.Argv)
	if command.Space != 0 || command.Enter {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return 0, err
		}
		defer unix.Close(pipe[1])
		c.failed = pipe[0]
		attr.Files = append(attr.Files, uintptr(pipe[1]))
		enter := "stay"
		if command.Enter {
			enter, attr.Files = "enter", append(attr.Files, uintptr(c.group))
		}
		argv = append([]string{process.Gate, strconv.FormatUint(command.Space, 10), enter, program}, argv...)
		program = "/proc/self/exe"
	}
	start := func() (int, error) { return syscall.ForkExec(program, argv, attr) }
	if command.Nice == 0 {
		return start()
	}
	l := k.nicer[command.Nice]
	if l == nil {
		l = newLauncher(command.Nice)
		k.nicer[command.Nice] = l
	}
	return l.do(start)
}

// launcher is a thread of a niceness of its own: a process inherits that of the thread which starts it. It lasts as long as the warden,
// since the kernel kills the commands when the thread that started them ends.
//
//  1. become nicer
//  2. wait for a start, run it, and answer
type launcher struct {
	starts chan func() (int, error)
	pid    int
	err    error
	done   chan struct{}
}

func newLauncher(nice int) *launcher {
	l := &launcher{starts: make(chan func() (int, error)), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		// The kernel's answer is 20 − niceness. More than 19 is 19.
		now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-now+nice)
		}
		for start := range l.starts {
			if l.pid, l.err = 0, err; err == nil {
				l.pid, l.err = start()
			}
			l.done <- struct{}{}
		}
	}()
	return l
}

func (l *launcher) do(start func() (int, error)) (int, error) {
	l.starts <- start
	<-l.done
	return l.pid, l.err
}

// failure is the error number that the gate of c has left; 0: none.
func (c *charge) failure() int {
	var number [4]byte
	if c.failed < 0 {
		return 0
	}
	if n, err := unix.Read(c.failed, number[:]); n != len(number) || err != nil {
		return 0
	}
	return int(binary.LittleEndian.Uint32(number[:]))
}

// close closes what the warden has open for c.
func (c *charge) close() {
	if c.group != noGroup {
		_ = unix.Close(int(c.group))
	}
	if c.failed >= 0 {
		_ = unix.Close(c.failed)
	}
	c.group, c.failed = noGroup, -1
}

// Descriptors of a gate.
const (
	gateFailed = 3 // by which it says why it failed
	gateGroup  = 4 // the folder of the group that it enters
)

// Gate is the main function of a gate. os.Args are its name, the address space that it may have in bytes (0: no limit), "enter" or "stay",
// the file of a program, and the program's arguments with its name. It limits this process, which then becomes the program. It returns if that
// fails.
func Gate() {
	unix.CloseOnExec(gateFailed)
	err := becomeLimited(os.Args[1:])
	errno, ok := err.(syscall.Errno) //nolint:errorlint // it is what the kernel said
	if !ok {
		errno = syscall.EINVAL
	}
	_, _ = unix.Write(gateFailed, binary.LittleEndian.AppendUint32(nil, uint32(errno)))
}

func becomeLimited(args []string) error {
	if len(args) < 4 {
		return syscall.EINVAL
	}
	space, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	environ := os.Environ()
	reserve(args, environ)
	if args[1] == "enter" {
		unix.CloseOnExec(gateGroup)
		if err := group(gateGroup).enter(); err != nil {
			return err
		}
	}
	if space != 0 {
		if err := limitSpace(space); err != nil {
			return err
		}
	}
	return syscall.Exec(args[2], args[3:], environ)
}

// limitSpace limits the address space of this process, which may have more at the moment: then it gets no more.
func limitSpace(bytes uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &now); err != nil {
		return err
	}
	bytes = min(bytes, now.Max)
	return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes})
}

// reserve has this process own the memory that becoming another one takes: once its address space is limited it gets no more.
func reserve(lists ...[]string) {
	size := 1 << 20
	for _, list := range lists {
		for _, text := range list {
			size += 2*len(text) + 64
		}
	}
	held := make([][]byte, 0, size/(32<<10)+1)
	for range cap(held) {
		held = append(held, make([]byte, 32<<10))
	}
	runtime.KeepAlive(held)
	held = nil
	runtime.GC()
}
