//go:build unix

package exechandler

import "github.com/lockstep-scheduler/lockstep/internal/clip"

const (
	// saidKept is how much of the end of a stream is kept for its last line.
	saidKept = 4 << 10
	// saidShown is how much of that line an error has, in bytes.
	saidShown = 200
)

// said is the end of what a command wrote to a stream.
type said struct {
	end []byte
	cut bool // there was more before it
}

func (s *said) note(p []byte) {
	end := p[max(0, len(p)-saidKept):]
	if over := len(s.end) + len(end) - saidKept; over > 0 {
		s.cut = true
		s.end = append(s.end[:0], s.end[min(over, len(s.end)):]...)
	}
	s.cut = s.cut || len(end) < len(p)
	s.end = append(s.end, end...)
}

// last is the last line that shows something.
func (s *said) last() string {
	text := string(s.end)
	if s.cut {
		text = "…" + text
	}
	if line := clip.LastLine(text, saidShown); line != "…" {
		return line
	}
	return ""
}
