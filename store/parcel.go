package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	maxPayload = 4 << 20 // bytes; a row must fit into one packet of the server
	maxTags    = 8 << 10 // bytes, encoded
	maxKey     = 255     // bytes
)

// parcel is a task on its way into a pool.
type parcel struct {
	task    jobs.Task
	own     string // the id it has, if it is new
	key     string // idempotency key, as the user gave it
	body    string // hash of kind and payload
	runAt   time.Time
	first   *parcel // an earlier one of the same batch with the same key
	existed bool
}

// newBatch checks the tasks and gives them ids; they are in the order of the ids.
func newBatch(tasks []jobs.NewTask) ([]*parcel, error) {
	batch := make([]*parcel, len(tasks))
	keys := map[[2]string]*parcel{}
	for i, n := range tasks {
		p, err := newParcel(n)
		if err != nil {
			if len(tasks) > 1 {
				err = fmt.Errorf("task %d of the list: %w", i+1, err)
			}
			return nil, err
		}
		if p.key != "" {
			k := [2]string{n.Pool, p.key}
			if p.first = keys[k]; p.first == nil {
				keys[k] = p
			} else if p.first.body != p.body {
				return nil, fmt.Errorf("idempotency key %q of pool %q stands twice in the list, with another kind or payload: %w", p.key, n.Pool, jobs.ErrConflict)
			}
		}
		batch[i] = p
	}
	return batch, nil
}

func newParcel(n jobs.NewTask) (*parcel, error) {
	payload, err := encodePayload(n.Payload)
	switch {
	case err != nil:
		return nil, fmt.Errorf("payload: %w: %w", jobs.ErrInvalid, err)
	case len(payload) > maxPayload:
		return nil, fmt.Errorf("payload: %w: %d bytes, at most %d are allowed", jobs.ErrInvalid, len(payload), maxPayload)
	case n.Pool == "":
		return nil, fmt.Errorf("pool: %w: it is missing", jobs.ErrInvalid)
	case len(n.Pool) > 64: // no such pool can exist
		return nil, fmt.Errorf("pool %.64q…: %w", n.Pool, jobs.ErrNotFound)
	case n.Kind != "" && !jobs.NamePattern.MatchString(n.Kind):
		return nil, fmt.Errorf("kind: %w: %.80q is not a name", jobs.ErrInvalid, n.Kind)
	case n.Priority < -100 || n.Priority > 100:
		return nil, fmt.Errorf("priority: %w: %d is not within -100 … 100", jobs.ErrInvalid, n.Priority)
	case len(n.IdempotencyKey) > maxKey:
		return nil, fmt.Errorf("idempotency_key: %w: %d bytes, at most %d are allowed", jobs.ErrInvalid, len(n.IdempotencyKey), maxKey)
	case len(encodeTags(n.Tags)) > maxTags:
		return nil, fmt.Errorf("tags: %w: more than %d bytes", jobs.ErrInvalid, maxTags)
	case !n.RunAt.IsZero() && (n.RunAt.Year() < 1971 || n.RunAt.Year() > 9999):
		return nil, fmt.Errorf("run_at: %w: year %d", jobs.ErrInvalid, n.RunAt.Year())
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	runAt := n.RunAt.UTC().Truncate(time.Microsecond)
	if n.RunAt.IsZero() {
		runAt = time.Time{}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", n.Kind)
	sum.Write(payload)
	return &parcel{
		task: jobs.Task{
			ID: id.String(), Pool: n.Pool, Kind: n.Kind, State: jobs.StatePending,
			Priority: n.Priority, RunAt: runAt, Payload: payload, Tags: n.Tags,
		},
		own: id.String(), key: n.IdempotencyKey, body: hex.EncodeToString(sum.Sum(nil)), runAt: runAt,
	}, nil
}

// encodePayload returns compact JSON; nil for no payload.
func encodePayload(v any) (json.RawMessage, error) {
	raw, isRaw := v.(json.RawMessage)
	if v == nil || isRaw && len(raw) == 0 {
		return nil, nil
	}
	if !isRaw {
		return json.Marshal(v)
	}
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.Bytes(), err
}
