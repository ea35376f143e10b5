package quorumlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// List implements driver.Session. It merges the lists of all servers that answer in time, at least a majority of them, and shows the
// holders that a majority names: it waits for each, since the majority that granted a key may have one
// server alone in common with the majority that answers first.
func (s *session) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	var infos []driver.Info
	for keys := 0; keys < limit; {
		low := "[" + prefix
		if after != "" && after >= prefix {
			low = "[" + after + "!" // behind its holders, and not behind longer keys
		}
		rs := s.ask(ctx, s.everywhere(), 0, allAnswers, func(ctx context.Context, i int) ([]any, error) {
			return s.eval(ctx, i, listScript, low, "("+prefix+"\xff", limit)
		})
		if !s.majorityOK(rs) {
			return nil, fmt.Errorf("quorumlock: list: %w", s.refusal(rs, "answered"))
		}
		page, last, more := s.merge(rs)
		for _, info := range page {
			if len(infos) == 0 || infos[len(infos)-1].Key != info.Key {
				if keys++; keys > limit {
					return infos, nil
				}
			}
			infos = append(infos, info)
		}
		if !more {
			break
		}
		after = last
	}
	return infos, nil
}

// merge returns the holders that a majority names, in the order of keys and tokens, up to the last key that all lists
// reach; more reports whether there are others behind.
func (s *session) merge(rs replies) (page []driver.Info, last string, more bool) {
	type count struct {
		named
		by mask
	}
	found := map[string]*count{} // by key and ballot
	for i, r := range rs {
		if !r.said("ok") {
			continue
		}
		end := ""
		for n := 2; n+2 < len(r.answer); n += 3 {
			h, ok := parse(r.answer[n], r.answer[n+1], r.answer[n+2])
			if !ok {
				continue
			}
			end = h.Key
			c := found[h.Key+" "+h.ballot]
			if c == nil {
				c = &count{named: h}
				found[h.Key+" "+h.ballot] = c
			}
			if c.Token == 0 {
				c.Token = h.Token
			}
			c.by, c.Remaining = c.by.with(i), max(c.Remaining, h.Remaining)
		}
		if r.answer[1] == "1" && (!more || end < last) {
			last, more = end, true
		}
	}
	for _, c := range found {
		if s.isMajority(c.by) && c.Token > 0 && (!more || c.Key <= last) {
			page = append(page, c.Info)
		}
	}
	slices.SortFunc(page, func(a, b driver.Info) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Token, b.Token)) })
	return page, last, more
}
