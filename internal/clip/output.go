package clip

import (
	"fmt"
	"sync"
)

// Output keeps the head and the tail of what an attempt wrote, each half of limit bytes.
type Output struct {
	mu      sync.Mutex
	limit   int
	head    []byte
	tail    []byte // ring once it is full
	at      int    // next write position of a full ring
	dropped int64
}

// NewOutput keeps at most limit bytes, and the line that says how many are missing.
func NewOutput(limit int) *Output { return &Output{limit: limit} }

// Write never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	half := o.limit / 2
	take := min(half-len(o.head), len(p))
	o.head = append(o.head, p[:take]...)
	p = p[take:]
	if len(p) > half {
		o.dropped += int64(len(p) - half)
		p = p[len(p)-half:]
	}
	take = min(half-len(o.tail), len(p))
	o.tail = append(o.tail, p[:take]...)
	p = p[take:]
	o.dropped += int64(len(p))
	for len(p) > 0 {
		took := copy(o.tail[o.at:], p)
		o.at = (o.at + took) % half
		p = p[took:]
	}
	return n, nil
}

// Bytes is what was kept; a line in the middle says how much is missing.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := append([]byte{}, o.head...)
	if o.dropped > 0 {
		kept = fmt.Appendf(kept, "\n… %d bytes left out …\n", o.dropped)
	}
	kept = append(kept, o.tail[o.at:]...)
	return append(kept, o.tail[:o.at]...)
}
