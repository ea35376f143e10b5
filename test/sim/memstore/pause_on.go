package memstore

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// pauseOn counts the ends of attempts, and pauses the pools in which too many failed.
func (t *tx) pauseOn(now time.Time, pauses map[string]jobs.PauseOn, failed map[string][]bool) error {
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		row, exists := t.pools.rows[name]
		if !exists || row.Paused != nil && *row.Paused && !t.makes(CountsPaused) {
			continue
		}
		window, why := ledger.PauseWindow(row.PauseWindow).Add(pauses[name], failed[name])
		row.PauseWindow = string(window)
		if why != "" {
			row.Paused, row.PausedBy, row.PauseReason = new(true), ledger.PausedBy, why
			id, err := t.s.newID()
			if err != nil {
				return err
			}
			if !t.makes(PausesUntold) {
				put(t, &t.events, event{ID: id, Event: string(jobs.EventPaused), Pool: name, Reason: why, HappenedAt: micros(now)})
			}
		}
		put(t, &t.pools, row)
	}
	return nil
}
