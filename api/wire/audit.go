package wire

import "time"

// AuditEntry is a write through the API, or a refused one, with its caller.
type AuditEntry struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Who    string    `json:"who"`               // name of the token; empty: access control was off
	Role   string    `json:"role,omitempty"`    // of the token
	Remote string    `json:"remote,omitempty"`  // address that the request came from
	Action string    `json:"action"`            // the route, as in "POST /jobs/{name}/run"; with "?force=true" if it was forced
	Object string    `json:"object,omitempty"`  // name or id that it was about; empty: several, of the requests that Count counts
	Status int       `json:"status"`            // of the answer: 2xx it was done, 403 the role was too weak
	TaskID string    `json:"task_id,omitempty"` // the first task that it made, or that was there under its idempotency key
	Tasks  int       `json:"tasks,omitempty"`   // how many
	Count  int       `json:"count,omitempty"`   // refused requests that the entry stands for, if more than one
}
