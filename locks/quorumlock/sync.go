package quorumlock

import (
	"context"
	"strconv"
)

// server is what summary() of namespace.lua says.
type server struct {
	gen, run  string
	highWater int64 // the highest token that it knows, or its clock in µs
	synced    bool
	evictions string
}

// summary reads it.
func summary(answer []any) server {
	text := func(i int) string { t, _ := answer[i].(string); return t }
	highWater, _ := strconv.ParseInt(text(3), 10, 64)
	return server{gen: text(1), run: text(2), highWater: highWater, synced: text(4) == "1", evictions: text(5)}
}

// summaries is how many fields of an answer it takes.
const summaries = 6

// sync brings the highest token of a majority to the servers that lack it, which may not vote for that reason. Where a majority
// knows it, only those of before get it: they had lost their data before the others were asked.
func (s *session) sync(ctx context.Context, rs replies, before mask) {
	var synced, lacks mask
	var highest, known int64
	rs.said("ok").each(func(i int) {
		now := summary(rs[i].answer)
		highest = max(highest, now.highWater)
		if now.synced {
			synced, known = synced.with(i), max(known, now.highWater)
		} else {
			lacks = lacks.with(i)
		}
	})
	switch {
	case s.blocks(lacks): // no majority knows: the clocks have to do
		known = highest
	case s.isMajority(synced):
		lacks &= before
	default:
		return
	}
	s.ask(ctx, lacks, s.limit/2, noAnswers, func(ctx context.Context, i int) ([]any, error) {
		return s.eval(ctx, i, syncScript, summary(rs[i].answer).gen, known)
	})
}
