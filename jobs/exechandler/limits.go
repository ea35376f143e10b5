package exechandler

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

// Limits bound what a command takes of the machine, with all that it starts; zero fields do not. [LimitsHeld] says how this process
// holds them.
//
// Where it has control groups, CPU and Memory hold for all processes of the attempt together: one that uses more processor is held
// back, and an attempt that needs more memory, swap included, is killed with all its processes, see [jobs.ExitError.OutOfMemory].
// Without them, Memory bounds the address space of each process (RLIMIT_AS), which is more than the memory that it uses: the system
// refuses what goes beyond. CPU has no such substitute: it does not hold then. What does not hold is said at the end of the output
// of each attempt.
type Limits struct {
	CPU    float64 // processors, 0.01 … 1024; 0.5 is half of one
	Memory int64   // bytes, 4 MiB … 1 PiB
	Nice   int     // 1 … 19, added to the niceness of this process, at most 19 together
}

// check says what is wrong, by the name of the field in files.
func (l Limits) check(refuse func(format string, args ...any)) {
	if l.CPU != 0 && !(l.CPU >= limits.LeastCPU && l.CPU <= limits.CPU) {
		refuse("limits: cpu: %v is out of range %v–%v processors", l.CPU, limits.LeastCPU, limits.CPU)
	}
	if l.Memory != 0 && (l.Memory < limits.LeastMemory || l.Memory > limits.Memory) {
		refuse("limits: memory: %d bytes are out of range %s–%s", l.Memory, sizeText(limits.LeastMemory), sizeText(limits.Memory))
	}
	if l.Nice < 0 || l.Nice > limits.Nice {
		refuse("limits: nice: %d is out of range 0–%d", l.Nice, limits.Nice)
	}
}

// String names what is set: "cpu 0.5, memory 512 MiB, nice 10".
func (l Limits) String() string {
	var all []string
	if l.CPU != 0 {
		all = append(all, "cpu "+strconv.FormatFloat(l.CPU, 'f', -1, 64))
	}
	if l.Memory != 0 {
		all = append(all, "memory "+sizeText(l.Memory))
	}
	if l.Nice != 0 {
		all = append(all, fmt.Sprintf("nice %d", l.Nice))
	}
	return strings.Join(all, ", ")
}

// sizeText is a number of bytes for people, in the largest unit of which it is a whole number.
func sizeText(bytes int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	n, unit := bytes, 0
	for n != 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return fmt.Sprintf("%d %s", n, units[unit])
}

// Held says how a process holds the [Limits] of its commands.
type Held struct {
	CPU, Memory Way
	Why         string // why it has no control groups for all of them; "": it has
}

// Way is how a limit is held.
type Way string

// Ways of holding limits. Nice is held everywhere.
const (
	NotHeld Way = ""
	ByGroup Way = "cgroup" // for the attempt, by a control group of its own, of cgroup v2
	ByLimit Way = "rlimit" // for each process, by RLIMIT_AS
)

// Missing says of some limits what does not hold, and what holds otherwise than by a control group; "" if nothing.
func (h Held) Missing(l Limits) string {
	var all []string
	if l.CPU != 0 && h.CPU == NotHeld {
		all = append(all, "cpu is not limited")
	}
	switch {
	case l.Memory == 0 || h.Memory == ByGroup:
	case h.Memory == ByLimit:
		all = append(all, "memory is limited as the address space of each process")
	default:
		all = append(all, "memory is not limited")
	}
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, ", and ") + ": " + cmp.Or(h.Why, "this system has no control groups")
}

// Limits are those of the command.
func (h *Handler) Limits() Limits { return h.command.Limits }
