package warden

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// maxFrame is how long a message may be: more than any kernel takes as arguments and environment.
const maxFrame = 16 << 20

// errFrame is a message that no warden or replica sends.
var errFrame = errors.New("malformed message")

// Command is what to start.
type Command struct {
	Program string   // a file, as it is
	Argv    [][]byte // with the name of the program; bytes, since they need not be text
	Env     [][]byte
	Marks   [][]byte // variables of Env that are unique to the attempt
	Dir     string   // "": the warden's own

	StartBy boottime.Stamp   // it must not be started later; zero: no limit
	Until   []boottime.Stamp // the last of these is the deadline; none: no deadline
	Grace   time.Duration    // between SIGTERM and SIGKILL at the deadline, and when the replica is gone
	Stdin   bool             // a file to read comes with the order, in front of the one to write
	Stderr  bool             // a file for standard error comes with the order, behind the one to write

	Nice   int      // added to the niceness of the warden
	Space  uint64   // bytes of address space that a process may have; 0: as the warden's
	Group  bool     // the folder of its control group comes with the order, last
	Enter  bool     // it is entered by a gate, and not at the clone
	Folder *os.File `json:"-"` // that one
}

// order is a message of the replica.
type order struct {
	ID     uint64
	Start  *Command         `json:",omitempty"`
	Until  []boottime.Stamp `json:",omitempty"` // the time of the command moves
	KillBy *boottime.Stamp  `json:",omitempty"` // stop it, and kill it then
	Asked  boottime.Stamp   `json:",omitzero"`  // when the replica wanted it; zero: now
	Signal int              `json:",omitempty"` // send it to the group of the command
}

// report says how a command was started or ended.
type report struct {
	ID     uint64
	PID    int    `json:",omitempty"` // it was started, and leads the group of this number
	Errno  int    `json:",omitempty"` // it could not be started; with Ended: after it had been
	Late   bool   `json:",omitempty"` // it was not started: too late
	Ended  bool   `json:",omitempty"` // it has ended, and if it was stopped all that it had started
	Status uint32 `json:",omitempty"` // of wait(2)
	Why    Why    `json:",omitempty"` // it was stopped
}

// Why says why a command was stopped.
type Why string

// Why a command was stopped; "" if it ended by itself.
const (
	Ordered Why = "ordered"
	Overdue Why = "overdue" // its deadline passed
	Alone   Why = "alone"   // its replica was gone
)

// frame makes a message of v: its length in four bytes, then JSON.
func frame(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes", errFrame, len(body))
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...), nil
}

// cut takes the first message off buf; nil if it is not all there yet.
func cut(buf []byte) (body, rest []byte, err error) {
	if len(buf) < 4 {
		return nil, buf, nil
	}
	n := binary.BigEndian.Uint32(buf)
	switch {
	case n == 0 || n > maxFrame:
		return nil, buf, fmt.Errorf("%w: %d bytes", errFrame, n)
	case len(buf)-4 < int(n):
		return nil, buf, nil
	}
	return buf[4 : 4+n], buf[4+n:], nil
}

// readOrder decodes an order.
func readOrder(body []byte) (order, error) {
	var o order
	if err := json.Unmarshal(body, &o); err != nil {
		return o, fmt.Errorf("%w: %w", errFrame, err)
	}
	if c := o.Start; c != nil && (c.Program == "" || len(c.Argv) == 0) {
		return o, fmt.Errorf("%w: nothing to start", errFrame)
	}
	return o, nil
}
