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

// Verdict is what becomes of a command.
type Verdict int

// The verdicts. What the client learns is the same in the last three cases: nothing, so that it
// cannot know whether the command took effect.
const (
	Pass         Verdict = iota
	LoseRequest          // it never arrives, and the connection is reset
	LoseReply            // it takes effect; then the connection is reset, and the answer is lost
	SwallowReply         // it takes effect, and nothing comes back on this connection any more
)

// ListenMySQL opens an edge to a MySQL server that can tell the commands of its clients apart.
// Clients must not use TLS or compression.
func ListenMySQL(target string) (*Proxy, error) {
	return listen(target, true)
}

// Judge has f decide over each command before it is passed on, also on connections that are open;
// nil lets all pass. f is called from many goroutines, and while it works the command waits. It is
// never called on an edge that Listen opened.
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

// next returns the bytes of a packet, and whether a command begins with it. What came of a packet
// that was cut short is returned with the error.
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

// judged asks what becomes of a packet that begins a command, and notes it on the connection.
// It returns false if the connection is over.
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

// condemned throws an answer away if that is its command's verdict. It returns what is left of the
// answer, and false if the connection is over.
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

// read reads what the client sends: whole packets where commands are told apart, else what is there.
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
