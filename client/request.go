package client

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// forcing is the body with force over the lost attempt; empty: over none.
func forcing(lost string) any {
	if lost == "" {
		return map[string]bool{"force": true}
	}
	return map[string]string{"force": lost}
}

// override is the body of suspend, resume and pause, and that of limits to remove them.
type override struct {
	Reset bool `json:"reset,omitempty"` // removes the override
}

// pageQuery are the parameters of a page, and those given by name and value; empty ones are left out.
func pageQuery(p wire.Page, more ...string) url.Values {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	for pair := range slices.Chunk(append(more, "cursor", p.Cursor), 2) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	return q
}

// timeText is a time as a parameter; "" if it is zero.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
