package history

import "time"

// Probe is a line of probes.jsonl: one look at a replica's readiness.
type Probe struct {
	At      time.Time
	Replica string
	Live    bool     // /healthz answered 200
	Ready   bool     // /readyz answered 200
	Red     []string // conditions of /readyz that do not hold, with reasons
}
