package warden

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stream is one end of the socket between replica and warden.
type stream struct {
	conn *net.UnixConn
	raw  syscall.RawConn

	chunk, rights []byte       // what one read fills
	buf           []byte       // received and not read
	files         []orderFiles // the files, in order: one entry for each order with files

	sending sync.Mutex
	patient time.Duration // how long a send may block; 0: for ever
}

// orderFiles is the files of one order.
type orderFiles struct {
	files []int
	short bool // this process had no descriptors left for some of them
}

// newStream makes a stream of a socket of AF_UNIX, and closes the file.
func newStream(file *os.File) (*stream, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	socket := conn.(*net.UnixConn)
	raw, err := socket.SyscallConn()
	return &stream{conn: socket, raw: raw, chunk: make([]byte, 64<<10), rights: make([]byte, unix.CmsgSpace(4*8))}, err
}

// send writes one message with its files. After an error the stream cannot send any more, and the other end has
// not got the whole message.
func (s *stream) send(message []byte, files ...*os.File) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.patient > 0 {
		if err := s.conn.SetWriteDeadline(time.Now().Add(s.patient)); err != nil {
			return err
		}
	}
	if len(files) > 0 {
		numbers := make([]int, len(files))
		for i, f := range files {
			numbers[i] = int(f.Fd())
		}
		n, _, err := s.conn.WriteMsgUnix(message, unix.UnixRights(numbers...), nil)
		if err != nil {
			return err
		}
		message = message[n:]
	}
	if len(message) == 0 {
		return nil
	}
	_, err := s.conn.Write(message)
	return err
}

// next waits for a message; io.EOF when the other end is gone.
func (s *stream) next() ([]byte, error) {
	for {
		if body, err := s.message(); body != nil || err != nil {
			return body, err
		}
		n, nRights, flags, _, err := s.conn.ReadMsgUnix(s.chunk, s.rights)
		if err != nil {
			return nil, err
		}
		if err := s.add(n, nRights, flags); err != nil {
			return nil, err
		}
	}
}

// await waits until something can be read, or the stream has ended.
func (s *stream) await() error {
	return s.raw.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n != 0 // also after an error: the read returns it
	})
}

// pull reads without waiting, and returns how much; 0 if nothing has arrived, io.EOF when the other end is
// gone.
func (s *stream) pull() (n int, err error) {
	var nRights, flags int
	broken := s.raw.Control(func(fd uintptr) {
		for again := true; again; again = errors.Is(err, unix.EINTR) {
			n, nRights, flags, _, err = unix.Recvmsg(int(fd), s.chunk, s.rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		}
	})
	switch err := cmp.Or(broken, err); {
	case errors.Is(err, unix.EAGAIN):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return n, s.add(n, nRights, flags)
}

// add keeps the result of one read.
func (s *stream) add(n, nRights, flags int) error {
	if short := flags&unix.MSG_CTRUNC != 0; nRights > 0 || short {
		got, err := received(s.rights[:nRights])
		s.files = append(s.files, orderFiles{got, short})
		if err != nil {
			return err
		}
	}
	if n == 0 {
		return io.EOF
	}
	s.buf = append(s.buf, s.chunk[:n]...)
	return nil
}

// message is the next one in the buffer; nil if it is incomplete.
func (s *stream) message() (body []byte, err error) {
	body, s.buf, err = cut(s.buf)
	return body, err
}

func received(rights []byte) (files []int, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	for _, m := range messages {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, fmt.Errorf("%w: %w", errFrame, err)
		}
		files = append(files, got...)
	}
	return files, nil
}

// take removes the n files of the next order. short says that some are missing: the others are closed.
func (s *stream) take(n int) (files []int, short bool, err error) {
	if len(s.files) == 0 {
		return nil, false, fmt.Errorf("%w: no files instead of %d", errFrame, n)
	}
	next := s.files[0]
	s.files = s.files[1:]
	if !next.short && len(next.files) == n {
		return next.files, false, nil
	}
	closeAll(next.files)
	if !next.short {
		err = fmt.Errorf("%w: %d files instead of %d", errFrame, len(next.files), n)
	}
	return nil, next.short, err
}
