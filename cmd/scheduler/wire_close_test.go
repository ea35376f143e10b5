package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// A lock service that is away when a replica has drained is no failure of the replica: its session expires. What else cannot be
// closed is.
func TestCloseAfterADrain(t *testing.T) {
	broken := errors.New("the file is gone")
	for what, c := range map[string]struct {
		closing []error
		fails   bool
		warns   bool
	}{
		"all is closed":                {[]error{nil, nil}, false, false},
		"the lock service is away":     {[]error{nil, fmt.Errorf("close: %w", locks.ErrUnavailable)}, false, true},
		"the store is broken":          {[]error{broken, nil}, true, false},
		"both, and all is closed":      {[]error{broken, fmt.Errorf("close: %w", locks.ErrUnavailable), nil}, true, true},
		"the lock service refuses all": {[]error{errors.New("WRONGPASS")}, true, false},
	} {
		var out bytes.Buffer
		p, closed := &parts{}, 0
		for _, err := range c.closing {
			p.closers = append(p.closers, func(context.Context) error { closed++; return err })
		}
		err := p.closeDrained(t.Context(), 3*time.Second, slog.New(slog.NewTextHandler(&out, nil)))
		if (err != nil) != c.fails || closed != len(c.closing) {
			t.Errorf("%s: %v, after %d of %d were closed", what, err, closed, len(c.closing))
		}
		if warns := strings.Contains(out.String(), "lock session not ended; it expires after lock.ttl") && strings.Contains(out.String(), "ttl=3s"); warns != c.warns {
			t.Errorf("%s: the log says %q", what, out.String())
		}
	}
}
