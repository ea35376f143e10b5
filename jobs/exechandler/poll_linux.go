package exechandler

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// chunk is how much is read at once: all that a pipe holds, so that no line of it is cut by one of the other stream.
const chunk = 64 << 10

// poll reads two pipes in the order in which they became readable: epoll lists them in that order, if it reports edges. No
// thread waits: the descriptor of epoll is in the runtime's own.
type poll struct {
	epoll *os.File
	conn  syscall.RawConn
	files [2]*os.File
	ended [2]bool // there are no writers any more; there may be something to read
	over  [2]bool // nor that
	ready []int   // to be read, in this order
}

func newPoll(first, second *os.File) (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err = unix.SetNonblock(fd, true); err != nil { // or the runtime would not wait for it
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &poll{epoll: os.NewFile(uintptr(fd), "epoll"), files: [2]*os.File{first, second}}
	for i, f := range p.files {
		if err = p.add(fd, f, i); err != nil {
			p.stop()
			return nil, os.NewSyscallError("epoll_ctl", err)
		}
	}
	if p.conn, err = p.epoll.SyscallConn(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *poll) add(epoll int, f *os.File, number int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	broken := conn.Control(func(fd uintptr) {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(number)})
	})
	return errors.Join(broken, err)
}

// each calls take with what is read, until both pipes have ended, or after stop.
//
//  1. wait until a pipe is readable, unless one is known to be; those that became so meanwhile go to the end of the queue
//  2. read the first one of the queue, once
//  3. if there may be more in it, it goes to the end of the queue: no edge will tell
func (p *poll) each(take func(number int, text []byte)) {
	buf := make([]byte, chunk)
	for open := 2; open > 0; {
		if p.wait() != nil {
			return
		}
		if len(p.ready) == 0 {
			continue
		}
		i := p.ready[0]
		p.ready = p.ready[1:]
		n, err := p.read(i, buf)
		if n > 0 {
			take(i, buf[:n])
		}
		switch {
		case errors.Is(err, unix.EAGAIN):
		case err != nil:
			open, p.over[i] = open-1, true
		case n == len(buf) || p.ended[i]:
			p.ready = append(p.ready, i)
		}
	}
}

// wait adds what became readable to the queue. It waits if that is empty.
func (p *poll) wait() error {
	var events [2]unix.EpollEvent
	var n int
	var err error
	broken := p.conn.Read(func(fd uintptr) bool {
		n, err = unix.EpollWait(int(fd), events[:], 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR) || len(p.ready) > 0
	})
	if broken != nil {
		return broken
	}
	for _, e := range events[:max(n, 0)] {
		i := int(e.Fd)
		p.ended[i] = p.ended[i] || e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
		if !p.over[i] && !slices.Contains(p.ready, i) { // the end may be reported twice
			p.ready = append(p.ready, i)
		}
	}
	if err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	return nil
}

// read reads without waiting; io.EOF when the pipe has ended.
func (p *poll) read(i int, buf []byte) (n int, err error) {
	conn, err := p.files[i].SyscallConn()
	if err != nil {
		return 0, err
	}
	broken := conn.Read(func(fd uintptr) bool {
		for again := true; again; again = errors.Is(err, unix.EINTR) {
			n, err = unix.Read(int(fd), buf)
		}
		return true
	})
	switch {
	case broken != nil:
		return 0, broken
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// stop ends each.
func (p *poll) stop() { _ = p.epoll.Close() }
