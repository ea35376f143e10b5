// Package processors tells how much of this machine's processors others on the same hardware take: what was late
// meanwhile, nobody here could have done in time.
package processors

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Reading is how much time this machine's processors had since it started, and how much of it other machines on
// the same hardware took while they had work: both in one unit, to be compared with an earlier reading.
type Reading struct{ all, stolen float64 }

// Read reads it. Where the kernel does not tell, nobody takes anything.
func Read() (Reading, error) {
	text, err := os.ReadFile("/proc/stat")
	if os.IsNotExist(err) {
		return Reading{}, nil
	}
	if err != nil {
		return Reading{}, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return parse(line)
}

// parse reads "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; user has guest in it.
func parse(line string) (r Reading, err error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return r, fmt.Errorf("%q is not how /proc/stat begins", line)
	}
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return r, fmt.Errorf("/proc/stat: %w", err)
		}
		r.all += ticks
		if i == 7 {
			r.stolen = ticks
		}
	}
	return r, nil
}

// TakenSince is the part of the time since earlier that others took, 0 to 1.
func (r Reading) TakenSince(earlier Reading) float64 {
	return (r.stolen - earlier.stolen) / max(r.all-earlier.all, 1)
}
