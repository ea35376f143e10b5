package proxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Command is one command of a MySQL client, such as a statement.
type Command struct {
	Conn  int    // of which connection of this edge, from 1
	Query string // the statement that is run, with question marks if it was prepared; empty for other commands
}

// Is reports whether the command is the statement, written in any case.
func (c Command) Is(statement string) bool {
	return strings.EqualFold(c.Query, statement)
}

// Verdict is the fate of a command.
type Verdict int

// The client cannot distinguish the last three: it does not learn whether the command took effect.
const (
	Pass         Verdict = iota
	LoseRequest          // it never arrives, and the connection is reset
	LoseReply            // it takes effect; then the connection is reset, and the answer is lost
	SwallowReply         // it takes effect, and this connection gets no more answers
)

// ListenMySQL opens an edge to a MySQL server that can distinguish the commands of its clients. Clients must
// not use TLS or compression.
func ListenMySQL(target string) (*Proxy, error) {
	return listen(target, true)
}

// Judge calls f for each command before it is passed on, also on open connections; nil lets all pass. f is
// called from many goroutines, and the command waits for it. It is not called on an edge that Listen opened.
func (p *Proxy) Judge(f func(Command) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = f
}

// packets reads whole packets of a MySQL client and hands each over as one.
type packets struct {
	from *bufio.Reader
	big  bool // the packet before was as large as they get: this one belongs to it
}

const (
	largest = 1<<24 - 1
	query   = 0x03
	prepare = 0x16
	execute = 0x17
)

func newPackets(from net.Conn) *packets { return &packets{from: bufio.NewReader(from)} }

// next returns the bytes of a packet, and whether a command begins with it. A packet that was cut is returned
// with the error.
func (r *packets) next() (packet []byte, command bool, err error) {
	head := make([]byte, 4)
	if n, err := io.ReadFull(r.from, head); err != nil {
		return head[:n], false, err
	}
	size := int(binary.LittleEndian.Uint32(head) & largest)
	packet = append(make([]byte, 0, 4+size), head...)[:4+size]
	n, err := io.ReadFull(r.from, packet[4:])
	command = head[3] == 0 && !r.big // within a login and within a command they are numbered on
	r.big = size == largest
	return packet[:4+n], command && err == nil, err
}

// judged gets the verdict of a packet that begins a command, and notes it on the connection. It returns false
// if the connection is closed.
func (one *pair) judged(packet []byte) bool {
	statement := one.prepared.command(packet)
	one.p.mu.Lock()
	judge := one.p.judge
	one.p.mu.Unlock()
	if judge == nil {
		return true
	}
	verdict := judge(Command{Conn: one.number, Query: statement})
	switch verdict {
	case LoseRequest:
		one.lost(len(packet))
		one.reset()
		return false
	case LoseReply, SwallowReply:
		one.verdict.Store(int32(verdict))
	}
	return true
}

// condemned drops an answer if that is its command's verdict. It returns the rest of the answer, and false if
// the connection is closed.
func (one *pair) condemned(answer []byte) ([]byte, bool) {
	one.prepared.answer(answer)
	switch Verdict(one.verdict.Load()) {
	case LoseReply:
		one.lost(len(answer))
		one.reset()
		return nil, false
	case SwallowReply:
		one.lost(len(answer))
		return nil, true
	}
	return answer, true
}

// read reads from the client: whole packets if commands are distinguished, else what is there.
func (one *pair) read(from *net.TCPConn) func() (chunk, error) {
	if !one.p.mysql {
		return func() (chunk, error) { return plain(from) }
	}
	reader := newPackets(from)
	return func() (chunk, error) {
		packet, command, err := reader.next()
		return chunk{bytes: packet, command: command, at: time.Now()}, err
	}
}

// statements are those that one connection has prepared.
type statements struct {
	mu    sync.Mutex
	next  string // whose number is in the answer that comes next; empty: none
	texts map[uint32]string
}

// command is the statement that a command runs.
func (s *statements) command(packet []byte) string {
	if len(packet) < 5 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch body := packet[5:]; packet[4] {
	case query:
		return string(body)
	case prepare:
		s.next = string(body)
	case execute:
		if len(body) >= 4 {
			return s.texts[binary.LittleEndian.Uint32(body)]
		}
	}
	return ""
}

// answer looks for a number: a packet that begins with 0, and then the number.
func (s *statements) answer(bytes []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != "" && len(bytes) >= 9 && bytes[4] == 0 {
		if s.texts == nil {
			s.texts = map[uint32]string{}
		}
		s.texts[binary.LittleEndian.Uint32(bytes[5:])] = s.next
	}
	s.next = ""
}
