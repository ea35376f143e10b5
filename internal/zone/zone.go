// Package zone finds time zones by their IANA names, in the same way on every machine.
package zone

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // images from scratch have no zone files
)

var (
	zones       sync.Map // name → *time.Location; only names that exist, so it stays small
	zonePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+/-]{0,63}$`)
)

// Load returns the IANA time zone with that name; "" is UTC. Every call with one name returns the same
// location.
//
// An unknown name is an error, and so is "Local": replicas on different machines must agree on a schedule.
func Load(name string) (*time.Location, error) {
	switch name {
	case "", "UTC":
		return time.UTC, nil
	case "Local", "localtime", "posixrules":
		return nil, fmt.Errorf("time zone %q differs between machines; name it, as in Europe/London", name)
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	// Zone folders also hold right/…, whose clocks count leap seconds, and posix/…, copies.
	known := zonePattern.MatchString(name) && !strings.HasPrefix(name, "right/") && !strings.HasPrefix(name, "posix/")
	if known {
		if zone, err := time.LoadLocation(name); err == nil {
			stored, _ := zones.LoadOrStore(name, zone)
			return stored.(*time.Location), nil
		}
	}
	return nil, fmt.Errorf("unknown time zone %q; use an IANA name with its capitals, as in Europe/London", name)
}
