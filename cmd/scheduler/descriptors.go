package main

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

const (
	// ownDescriptors are open beside work and API: database, lock service, files.
	ownDescriptors = 96
	// descriptorsOfStart is for one starting attempt: two pipes, or a connection and its DNS lookup.
	descriptorsOfStart = 4
	// The API's connections: fewConnections should be possible, and there are never more than mostConnections.
	fewConnections, mostConnections = 32, 1024
)

// descriptors divides the process's limit of open files. Attempts come first: API connections never take the
// descriptors that a start needs.
type descriptors struct {
	limit   int // 0: unknown or none
	workers int
}

func newDescriptors(workers int) descriptors {
	return descriptors{limit: openFiles(), workers: workers}
}

// forWork is reserved for the replica and its attempts.
func (d descriptors) forWork() int { return ownDescriptors + descriptorsOfStart*d.workers }

// connections is the API's share.
func (d descriptors) connections() int {
	if d.limit == 0 {
		return mostConnections
	}
	least := min(fewConnections, max(d.limit/8, 1))
	return min(max(d.limit-d.forWork(), least), mostConnections)
}

// short explains that the limit is too low for the workers; "" if it is not.
func (d descriptors) short() string {
	need := d.forWork() + fewConnections
	if d.limit == 0 || d.limit >= need {
		return ""
	}
	return fmt.Sprintf("%d files may be open, and %d workers may need %d: raise the limit (ulimit -n, LimitNOFILE=), or lower replica.workers",
		d.limit, d.workers, need)
}

// conditions report short in readiness; the replica stays ready.
func (d descriptors) conditions() []wire.Condition {
	if why := d.short(); why != "" {
		return []wire.Condition{{Name: "descriptors", Ready: true, Detail: why}}
	}
	return nil
}

// descriptors checks the limit that this process has, and that a replica started the same way gets.
func (e *examination) descriptors(d descriptors) {
	if why := d.short(); why != "" {
		e.add("descriptors", levelWarning, "", "%s", why)
	}
}
