package main

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

const (
	// ownDescriptors is what a replica has open beside its work and its API: database, lock service, files.
	ownDescriptors = 96
	// descriptorsOfStart is what the start of an attempt takes: two pipes, or a connection and its lookup.
	descriptorsOfStart = 4
	// fewConnections is how many connections the API should be able to have, and mostConnections how many
	// it has where there are descriptors for more.
	fewConnections, mostConnections = 32, 1024
)

// descriptors shares out the files that this process may have open. Work comes first: connections of
// strangers must not take what a start needs.
type descriptors struct {
	limit   int // of this process; 0: unknown, or none
	workers int
}

func newDescriptors(workers int) descriptors {
	return descriptors{limit: openFiles(), workers: workers}
}

// forWork is what is kept for the replica itself and its attempts.
func (d descriptors) forWork() int { return ownDescriptors + descriptorsOfStart*d.workers }

// connections is how many the API may have.
func (d descriptors) connections() int {
	if d.limit == 0 {
		return mostConnections
	}
	least := min(fewConnections, max(d.limit/8, 1))
	return min(max(d.limit-d.forWork(), least), mostConnections)
}

// short says that the limit is too low for the workers; "" if it is not.
func (d descriptors) short() string {
	need := d.forWork() + fewConnections
	if d.limit == 0 || d.limit >= need {
		return ""
	}
	return fmt.Sprintf("%d files may be open, and %d workers may need %d: raise the limit (ulimit -n, LimitNOFILE=), or lower replica.workers",
		d.limit, d.workers, need)
}

// conditions tell people what short does; it keeps no replica from its work.
func (d descriptors) conditions() []wire.Condition {
	if why := d.short(); why != "" {
		return []wire.Condition{{Name: "descriptors", Ready: true, Detail: why}}
	}
	return nil
}

// descriptors says whether a replica that is started as this program was may open enough files.
func (e *examination) descriptors(d descriptors) {
	if why := d.short(); why != "" {
		e.add("descriptors", levelWarning, "", "%s", why)
	}
}
