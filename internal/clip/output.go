package clip

import (
	"slices"
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
	text, _ := o.Kept()
	return text
}

// Kept is Bytes, and which bytes of the output these are.
func (o *Output) Kept() (text []byte, spans Spans) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped > 0 && len(o.tail) == 0 { // the limit lets nothing through
		return []byte(leftOut(o.dropped)), ""
	}
	return Join(o.parts())
}

// parts are what is kept. The caller holds o.mu.
func (o *Output) parts() []Part {
	return []Part{{0, o.head}, {int64(len(o.head)) + o.dropped, slices.Concat(o.tail[o.at:], o.tail[:o.at])}}
}

// After returns what is kept of the output from a byte on, at most so many bytes of it, without an incomplete rune at its end. The part begins later if bytes
// are left out, and is empty if there is nothing yet.
func (o *Output) After(at int64, most int) Part {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, news := range AfterParts(o.parts(), at) {
		data := news.Data[:min(len(news.Data), most)]
		return Part{news.At, wholeRunes(data)}
	}
	return Part{at, nil}
}
