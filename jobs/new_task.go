package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/plainjson"
)

// Encode checks the task and returns its payload as compact JSON; nil if it has none. All problems
// are reported at once, as joined [*FieldError]s. Whether the pool exists is not known here.
func (n NewTask) Encode() (json.RawMessage, error) {
	var p problems
	p.name("pool", n.Pool)
	if n.Kind != "" {
		p.name("kind", n.Kind)
	}
	if len(n.Key) > limits.Key || !naming.Printable(n.Key) {
		p.add("key", "must be at most %d bytes of printable text", limits.Key)
	}
	payload := p.payload("payload", n.Payload)
	// Within these years, in every zone, times keep their order as microseconds and as text, and
	// none is 0, which means no time.
	if !n.RunAt.IsZero() && (n.RunAt.Year() < 1971 || n.RunAt.Year() > 9998) {
		p.add("run_at", "year %d is out of range 1971–9998", n.RunAt.Year())
	}
	switch at := n.ExpiresAt; {
	case at.IsZero():
	case at.Year() < 1971 || at.Year() > 9998:
		p.add("expires_at", "year %d is out of range 1971–9998", at.Year())
	case !n.RunAt.IsZero() && !at.Truncate(time.Microsecond).After(n.RunAt.Truncate(time.Microsecond)):
		p.add("expires_at", "must be later than run_at")
	}
	if n.MaxAttempts != 0 {
		p.within("max_attempts", n.MaxAttempts, 1, limits.Retries+1)
	}
	p.ownDuration("timeout", n.Timeout)
	p.ownDuration("backoff", n.Backoff)
	if n.Priority < -limits.Priority || n.Priority > limits.Priority {
		p.add("priority", "%d is out of range −%d…%d", n.Priority, limits.Priority, limits.Priority)
	}
	if len(n.IdempotencyKey) > limits.IdempotencyKey || !naming.Printable(n.IdempotencyKey) {
		p.add("idempotency_key", "must be at most %d bytes of printable text", limits.IdempotencyKey)
	}
	p.unique(n.Unique)
	if len(n.By) > limits.By || !naming.Printable(n.By) {
		p.add("by", "must be at most %d bytes of printable text", limits.By)
	}
	if len(n.Tags) > limits.Tags {
		p.add("tags", "%d tags, at most %d are allowed", len(n.Tags), limits.Tags)
	}
	for i, tag := range n.Tags[:min(len(n.Tags), limits.Tags)] {
		if tag == "" || len(tag) > limits.Tag || !naming.Printable(tag) {
			p.add(fmt.Sprintf("tags[%d]", i), "must be 1 to %d bytes of printable text", limits.Tag)
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return payload, nil
}

// ownDuration checks a duration that a task may have in place of its pool's.
func (p *problems) ownDuration(path string, d time.Duration) {
	if d != 0 && (d < time.Millisecond || d > duration.Max) {
		p.add(path, "%v is out of range 1ms–366d", d)
	}
}

// MarshalJSON writes durations as text.
func (n NewTask) MarshalJSON() ([]byte, error) {
	type fields NewTask
	return plainjson.Marshal(struct {
		fields
		Timeout Duration `json:"timeout,omitempty"`
		Backoff Duration `json:"backoff,omitempty"`
	}{fields(n), Duration(n.Timeout), Duration(n.Backoff)})
}

// UnmarshalJSON takes durations as definitions have them, and no unknown keys. The payload is a json.RawMessage, as it was written. What text
// does not have stays, as Pool and By, which JSON does not have.
func (n *NewTask) UnmarshalJSON(text []byte) error {
	type fields NewTask
	is := struct {
		fields
		Payload json.RawMessage `json:"payload"`
		Timeout Duration        `json:"timeout"`
		Backoff Duration        `json:"backoff"`
	}{fields: fields(*n), Timeout: Duration(n.Timeout), Backoff: Duration(n.Backoff)}
	is.Tags = slices.Clone(n.Tags)
	if n.Unique != nil {
		is.Unique = new(*n.Unique)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&is); err != nil {
		return err
	}
	*n = NewTask(is.fields)
	n.Timeout, n.Backoff = time.Duration(is.Timeout), time.Duration(is.Backoff)
	if is.Payload != nil {
		n.Payload = is.Payload
	}
	return nil
}
