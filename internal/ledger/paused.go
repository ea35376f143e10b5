package ledger

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// Pause says that everything is paused; the zero Pause, that nothing is.
type Pause struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"` // it ends then, by the database's time; zero: when it is resumed
}

// ReadPause reads a Pause as it is stored.
func ReadPause(text []byte) (p Pause) {
	if len(text) > 0 {
		_ = json.Unmarshal(text, &p)
	}
	return p
}

// Text is the pause as it is stored.
func (p Pause) Text() []byte {
	text, _ := json.Marshal(p) // it always encodes
	return text
}

// At is the pause at a time: none once it has ended.
func (p Pause) At(now time.Time) Pause {
	if !p.Until.IsZero() && !now.Before(p.Until) {
		return Pause{}
	}
	return p
}

// Is reports whether there is one.
func (p Pause) Is() bool { return !p.Since.IsZero() }

// View is what people see of it; nil: nothing is paused.
func (p Pause) View() *wire.Pause {
	if !p.Is() {
		return nil
	}
	return &wire.Pause{By: p.By, Reason: p.Reason, Since: p.Since, Until: p.Until}
}

// String is a sentence.
func (p Pause) String() string {
	var b strings.Builder
	b.WriteString("everything is paused")
	if p.By != "" {
		b.WriteString(" by " + p.By)
	}
	b.WriteString(" since " + p.Since.UTC().Format(time.RFC3339))
	if !p.Until.IsZero() {
		b.WriteString(", until " + p.Until.UTC().Format(time.RFC3339))
	}
	if p.Reason != "" {
		b.WriteString(": " + p.Reason)
	}
	return b.String()
}
