package membership

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

var errRefused = errors.New("error 1406 (22001): Data too long for column 'output' at row 1")

func newStore() *memstore.Store { return &memstore.Store{Database: memstore.New()} }

// memberOn is replica a, with a session ttl of ten seconds, whose hooks do nothing.
func memberOn(t *testing.T, st ledger.Sessions) *Member {
	t.Helper()
	return New(st, Options{ID: "a", SessionTTL: 10 * time.Second, MaxClockSkew: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)}, Hooks{
		Renewed: func(context.Context) {},
		Died:    func(string) {},
		Peers:   func([]string) {},
		Expired: func() {},
		Changed: func() {},
	})
}
