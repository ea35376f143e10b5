//go:build linux

package arena

import (
	"context"
	"net/http"
	"time"
)

// PauseAll has a replica pause everything; a zero until: until it is resumed.
func (r *Replica) PauseAll(ctx context.Context, until time.Time) error {
	body := map[string]any{"reason": "chaos"}
	if !until.IsZero() {
		body["until"] = until
	}
	_, err := r.caller().send(ctx, http.MethodPost, r.URL()+"/api/v1/pause", nil, body, nil)
	return err
}

// AllPaused is what a replica says.
func (r *Replica) AllPaused(ctx context.Context) (bool, error) {
	var is struct{ Paused bool }
	_, err := r.caller().get(ctx, r.URL()+"/api/v1/pause", &is)
	return is.Paused, err
}

// ResumeAll has a replica end the pause of everything, and reports whether there was one.
func (r *Replica) ResumeAll(ctx context.Context) (bool, error) {
	var is struct {
		WasPaused bool `json:"was_paused"`
	}
	_, err := r.caller().send(ctx, http.MethodPost, r.URL()+"/api/v1/resume", nil, nil, &is)
	return is.WasPaused, err
}

func (r *Replica) caller() *caller { return &caller{http: r.arena.http} }
