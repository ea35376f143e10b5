//go:build linux

package arena

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Lock is a lock that is held, as its service says.
type Lock struct {
	Key   string
	Token int64
	Meta  string    // of a pool's lock, the id of the replica
	Since time.Time // by the server's clock
}

// Holder asks r for the holder of a lock; ok is false if it is free.
func (r *Replica) Holder(ctx context.Context, key string) (lock Lock, ok bool, err error) {
	status, text := r.look(ctx, "/api/v1/locks?prefix="+url.QueryEscape(key))
	if status != http.StatusOK {
		return lock, false, fmt.Errorf("ask %s for the holder of %s: status %d: %.100q", r.ID, key, status, text)
	}
	var page struct{ Items []Lock }
	if err := json.Unmarshal(text, &page); err != nil {
		return lock, false, fmt.Errorf("ask %s for the holder of %s: %w", r.ID, key, err)
	}
	for _, l := range page.Items {
		if l.Key == key {
			return l, true, nil
		}
	}
	return lock, false, nil
}
