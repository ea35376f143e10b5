package wire

import (
	"errors"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Check returns the first thing that no pool may have, as a [*jobs.FieldError] whose path is the JSON key: a number that is out of
// range, or a burst that takes longer than a year to fill at the rate beside it.
func (o PoolLimits) Check() error {
	var p jobs.Pool
	if o.MaxRunning != nil {
		p.MaxRunning = *o.MaxRunning
	}
	if o.Rate != nil {
		p.Rate = *o.Rate
	}
	if o.Burst != nil {
		p.Burst = *o.Burst
	}
	err := jobs.Set{Pools: map[string]jobs.Pool{"p": p}}.Validate()
	if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
		return &jobs.FieldError{Path: strings.TrimPrefix(wrong.Path, "pools.p."), Problem: wrong.Problem}
	}
	return err
}
