package store

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/migrations"
)

// refuseBeside refuses steps after which the programs of live replicas must not use the schema any more: such
// a program checks the schema when it starts, and not again.
func (t *tx) refuseBeside(steps []migrations.Migration, schema newestSchema) error {
	if schema.version == 0 {
		return nil // no replica has ever run
	}
	least := 0
	for _, step := range steps {
		if step.Version > schema.version {
			least = max(least, step.MinCompatible)
		}
	}
	if least <= schema.version {
		return nil
	}
	live, err := list(t.rows("SELECT "+firstSessionColumns+" FROM {sessions} WHERE dead = 0"), (*sessionModel).peer)
	if err != nil {
		return err
	}
	now, err := t.Now()
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // as replicas write it
	var at []string
	var wait time.Duration
	for _, p := range live {
		if !p.Gone(host) && now.Sub(p.SeenAt) < p.TTL {
			at, wait = append(at, p.Replica), max(wait, p.TTL)
		}
	}
	if len(at) == 0 {
		return nil
	}
	return fmt.Errorf("%w: it is at version %d, and after version %d programs that do not know that one cannot use it. Stop all replicas first, then start this program; "+
		"at work: %s (one that was killed counts as gone after %v)", ErrSchema, schema.version, least, strings.Join(at, ", "), wait)
}
