package wire

import "time"

// Pause says that everything is paused: nothing starts, and what runs goes on.
type Pause struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // it ends then by itself; absent: when it is resumed
}

// Pausing is whether everything is paused.
type Pausing struct {
	Paused bool   `json:"paused"`
	Pause  *Pause `json:"pause,omitempty"`
	// WasPaused is in the answer of a resume: whether there was something to resume.
	WasPaused *bool `json:"was_paused,omitempty"`
}
