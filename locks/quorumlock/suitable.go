package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// Check says of each server whether it can be reached and is suitable for locks, as far as can be checked without a
// namespace: nil if all are. It writes nothing.
func (d *Driver) Check(ctx context.Context) error {
	if err := d.Valid(); err != nil {
		return err
	}
	s := newSession(d, driver.Open{TTL: 10 * time.Second}, "")
	rs := s.ask(ctx, all(len(d.nodes)), 0, allAnswers, func(ctx context.Context, i int) ([]any, error) {
		return s.eval(ctx, i, serverScript)
	})
	var errs []error
	for i, r := range rs {
		if r.err == nil {
			r.err = suitable(r.answer)
		}
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.nodes[i].address(), redisconn.Refused(d.nodes[i].rdb, r.err)))
		}
	}
	if err := duplicate(d.nodes, rs, 1); err != nil {
		errs = append(errs, err)
	}
	if err := s.calls.Join(ctx); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("quorumlock: check: %w", errors.Join(errs...))
	}
	return nil
}

// duplicate returns an error if two servers report one run_id, which stands there in their answers.
func duplicate(nodes []*node, rs replies, at int) error {
	seen := map[string]int{}
	for i, r := range rs {
		if r.err != nil || len(r.answer) <= at {
			continue
		}
		run, _ := r.answer[at].(string)
		if other, ok := seen[run]; ok && run != "" {
			return sameServer(nodes[other], nodes[i])
		}
		seen[run] = i
	}
	return nil
}

func sameServer(a, b *node) error {
	return fmt.Errorf("%s and %s are the same server: it would vote twice", a.address(), b.address())
}

// suitable reads the answer of memory.lua.
func suitable(answer []any) error {
	if answer[0] == "replica" {
		return errors.New("the server is a replica: the servers of a quorum are independent of each other")
	}
	return redisconn.Keeps(answer)
}
