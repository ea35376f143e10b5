//go:build unix

package exechandler

import (
	"io"
	"os"
)

// streams are standard output and standard error of a command, a pipe for each, since a pipe does not say who wrote. What they
// carry is passed on as one text. Each stream keeps its order. Where nothing waits to be read, what is written to both of them
// comes in the order of the two first writes; what a command writes within the time that the reader takes to wake up, some ten
// microseconds, comes stream by stream.
//
//	open ──▶ started: the command has the other ends ──▶ pass returns when nobody has them any more, or after stop
type streams struct {
	pipes [2]pipe // standard output and standard error
	poll  *poll
}

// pipe is one of them.
type pipe struct {
	read, write *os.File
	said        said
}

func openStreams() (*streams, error) {
	s := &streams{}
	for i := range s.pipes {
		p := &s.pipes[i]
		var err error
		if p.read, p.write, err = os.Pipe(); err != nil {
			s.close()
			return nil, err
		}
	}
	var err error
	if s.poll, err = newPoll(s.pipes[0].read, s.pipes[1].read); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// started closes the ends that the command writes to.
func (s *streams) started() {
	for _, p := range s.pipes {
		p.write.Close()
	}
}

// pass passes on what comes. An out that takes no more holds the command not up.
func (s *streams) pass(out io.Writer) {
	var full error
	s.poll.each(func(stream int, text []byte) {
		s.pipes[stream].said.note(text)
		if full == nil {
			_, full = out.Write(text)
		}
	})
}

// stop has pass return, also where processes still hold the pipes.
func (s *streams) stop() { s.poll.stop() }

// close closes all. pass must not run.
func (s *streams) close() {
	if s.poll != nil {
		s.poll.stop()
	}
	for _, p := range s.pipes {
		for _, f := range []*os.File{p.read, p.write} {
			if f != nil {
				f.Close()
			}
		}
	}
}

// last is the last line that shows something: of standard error or, if nothing there does, of standard output. pass must have
// returned.
func (s *streams) last() string {
	if line := s.pipes[1].said.last(); line != "" {
		return line
	}
	return s.pipes[0].said.last()
}
