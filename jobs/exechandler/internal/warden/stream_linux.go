package warden

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// stream is one end of the socket between replica and warden.
type stream struct {
	conn *net.UnixConn

	buf   []byte // received and not read
	files []int  // that came along; the first ones belong to the next order that has any

	sending sync.Mutex
	patient time.Duration // how long the other end may take to make room; 0: for ever
}

// newStream makes a stream of a socket, and closes the file.
func newStream(file *os.File) (*stream, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("not a socket of this machine")
	}
	return &stream{conn: socket}, nil
}

// send writes one message with the files that belong to it. After an error nothing more can be sent,
// and the other end has not understood the message.
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
	chunk, rights := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*8))
	for {
		body, rest, err := cut(s.buf)
		if body != nil || err != nil {
			s.buf = rest
			return body, err
		}
		n, nRights, flags, _, err := s.conn.ReadMsgUnix(chunk, rights)
		if nRights > 0 {
			got, err := received(rights[:nRights])
			s.files = append(s.files, got...)
			if err != nil {
				return nil, err
			}
		}
		switch {
		case err != nil:
			return nil, err
		case flags&unix.MSG_CTRUNC != 0:
			return nil, fmt.Errorf("%w: files were lost", errFrame)
		case n == 0:
			return nil, io.EOF
		}
		s.buf = append(s.buf, chunk[:n]...)
	}
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

// take removes the next n files that came along.
func (s *stream) take(n int) ([]int, error) {
	if len(s.files) < n {
		return nil, fmt.Errorf("%w: %d files instead of %d", errFrame, len(s.files), n)
	}
	taken := s.files[:n:n]
	s.files = s.files[n:]
	return taken, nil
}
