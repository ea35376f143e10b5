package wire

import "time"

// Reloaded is what became of the configuration of a replica that was loaded again.
type Reloaded struct {
	Replica    string    `json:"replica"`
	Config     int64     `json:"config,omitempty"`      // its number; absent before the replica has joined
	ConfigHash string    `json:"config_hash,omitempty"` // of its content
	ConfigTime time.Time `json:"config_time,omitzero"`  // when its file was written
	Governs    bool      `json:"governs"`               // no live replica has a newer one
	Newer      string    `json:"newer,omitempty"`       // the newer configuration that governs, and its replica
	Jobs       Changed   `json:"jobs,omitzero"`
	Pools      Changed   `json:"pools,omitzero"`
	Restart    []string  `json:"restart,omitempty"` // settings that have changed, and need a restart: they are as before
	Pending    string    `json:"pending,omitempty"` // why the store does not have all of it yet; it follows by itself
}

// Changed are names that were added, have another definition, or were removed, sorted.
type Changed struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// None reports whether nothing has changed.
func (c Changed) None() bool { return len(c.Added)+len(c.Changed)+len(c.Removed) == 0 }
