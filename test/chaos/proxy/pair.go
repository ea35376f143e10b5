package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

type direction int

const (
	up direction = iota
	down
)

// pair is a client's connection and its connection to the server.
type pair struct {
	p      *Proxy
	number int // of its edge, from 1
	client *net.TCPConn

	verdict  atomic.Int32 // over its newest command
	prepared statements

	mu     sync.Mutex
	server *net.TCPConn
	over   chan struct{} // closed at its end
	ended  bool

	gap bool // it lost bytes; guarded by p.mu
}

// reach notes the connection to the server; false if the pair has ended meanwhile.
func (one *pair) reach(server *net.TCPConn) bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.ended {
		_ = server.Close()
		return false
	}
	one.server = server
	return true
}

// reset ends the pair as a broken network does: both sides read ECONNRESET.
func (one *pair) reset() { one.finish(true) }

func (one *pair) end() { one.finish(false) }

func (one *pair) finish(hard bool) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.ended {
		return
	}
	one.ended = true
	close(one.over)
	for _, conn := range []*net.TCPConn{one.client, one.server} {
		if conn == nil {
			continue
		}
		if hard {
			_ = conn.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// chunk is bytes and when they may arrive. No bytes: the end of the stream.
type chunk struct {
	bytes   []byte
	at      time.Time
	command bool // a command begins with it
}

// inFlight bounds the chunks in flight.
const inFlight = 1024

// pump carries bytes of one direction until a side is closed. It reads on while the chunk before is delayed: a
// delay costs no throughput.
func (one *pair) pump(from, to *net.TCPConn, way direction) {
	chunks := make(chan chunk, inFlight)
	var delivering sync.WaitGroup
	delivering.Go(func() { one.deliver(chunks, to, way) })
	defer delivering.Wait()
	defer close(chunks)
	read := func() (chunk, error) { return plain(from) }
	if way == up {
		read = one.read(from)
	}
	for {
		p, err := read()
		lane, _ := one.p.lane(way)
		p.at = p.at.Add(lane.wait())
		if len(p.bytes) > 0 && !one.send(chunks, p) {
			return
		}
		if err != nil {
			one.send(chunks, chunk{at: p.at})
			return
		}
	}
}

// plain reads what is there.
func plain(from *net.TCPConn) (chunk, error) {
	buffer := make([]byte, 16<<10)
	n, err := from.Read(buffer)
	return chunk{bytes: buffer[:n], at: time.Now()}, err
}

func (one *pair) send(chunks chan<- chunk, p chunk) bool {
	select {
	case chunks <- p:
		return true
	case <-one.over:
		return false
	}
}

// deliver writes chunks, each when its time has come and its lane lets it pass.
func (one *pair) deliver(chunks <-chan chunk, to *net.TCPConn, way direction) {
	for p := range chunks {
		if !one.pause(time.Until(p.at)) {
			return
		}
		lane, ok := one.pass(way, int64(len(p.bytes)))
		switch {
		case !ok:
			return
		case len(p.bytes) == 0:
			_ = to.CloseWrite()
			continue
		case lane.Lose:
			one.drop(len(p.bytes))
			continue
		case lane.BytesPerSecond > 0:
			if !one.pause(time.Duration(len(p.bytes)) * time.Second / time.Duration(lane.BytesPerSecond)) {
				return
			}
		}
		if way == down {
			if p.bytes, ok = one.condemned(p.bytes); !ok {
				return
			}
		} else if p.command && !one.judged(p.bytes) {
			return
		}
		if tap := one.p.tapped(); tap != nil {
			tap(one.number, way == up, p.bytes)
		}
		if _, err := to.Write(p.bytes); err != nil {
			one.end()
			return
		}
		one.arrived(way, len(p.bytes))
	}
}

// pass waits while the lane holds bytes back; false if the pair ends first.
func (one *pair) pass(way direction, n int64) (Lane, bool) {
	waited := false
	for {
		lane, changed := one.p.lane(way)
		if !lane.Hold {
			return lane, true
		}
		if !waited {
			waited = true
			one.p.mu.Lock()
			one.p.counts.Held += n
			one.p.mu.Unlock()
		}
		select {
		case <-changed:
		case <-one.over:
			return lane, false
		}
	}
}

func (one *pair) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-one.over:
		return false
	}
}

func (one *pair) lost(n int) {
	one.p.mu.Lock()
	defer one.p.mu.Unlock()
	one.p.counts.Lost += int64(n)
	one.gap = true
}

// drop discards what a lane loses. If that fault has ended since the lane was read, Set has seen no gap, and
// the pair is reset here, before anything follows.
func (one *pair) drop(n int) {
	one.p.mu.Lock()
	one.p.counts.Lost += int64(n)
	one.gap = true
	over := !one.p.fault.loses()
	if over {
		one.p.counts.Reset++
	}
	one.p.mu.Unlock()
	if over {
		one.reset()
	}
}

func (one *pair) arrived(way direction, n int) {
	one.p.mu.Lock()
	defer one.p.mu.Unlock()
	if way == up {
		one.p.counts.Up += int64(n)
	} else {
		one.p.counts.Down += int64(n)
	}
}
