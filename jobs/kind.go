package jobs

import (
	"context"
	"fmt"
	"io"

	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// Kind is a kind of tasks of one pool, whose payload is a P. A program that makes its tasks with New and
// its handlers with Handle cannot misspell the kind, nor enqueue what the handler does not take:
//
//	var receipts = jobs.NewKind[Receipt]("mail", "receipt")
//
//	jobs.Pool{Kinds: jobs.Kinds(receipts.Handle(shop.sendReceipt))} // with sendReceipt(ctx, task, Receipt) error
//	store.EnqueueTx(ctx, tx, receipts.New(Receipt{Order: 7}))
type Kind[P any] struct{ pool, name string }

// NewKind names a kind and its pool. Names that are none are reported where they are used: by
// [Set.Validate], and when a task is enqueued.
func NewKind[P any](pool, name string) Kind[P] { return Kind[P]{pool, name} }

// New is a task of this kind. The payload is encoded when the task is enqueued, as [json.Marshal] does
// it, with <, > and & as they are, a json.RawMessage as it is; the handler gets what [Func] decodes of that.
func (k Kind[P]) New(payload P) NewTask {
	return NewTask{Pool: k.pool, Kind: k.name, Payload: payload}
}

// Handle says what does the tasks of this kind: fn, as by [Func], within the middleware, as by [Wrap].
// It is for [Kinds].
func (k Kind[P]) Handle(fn func(context.Context, Task, P) error, around ...func(next Handler) Handler) KindHandler {
	return KindHandler{pool: k.pool, kind: k.name, handler: Wrap(Func(fn), around...)}
}

// KindHandler is the handler of a [Kind]. [Set.Validate] refuses it for another kind or another pool, in a job of
// another pool, and in a [Notify].
type KindHandler struct {
	pool, kind string
	handler    Handler
	twice      bool
}

func (h KindHandler) Run(ctx context.Context, t Task, out io.Writer) error {
	return h.handler.Run(ctx, t, out)
}

// Unwrap makes it a [Wrapper].
func (h KindHandler) Unwrap() Handler { return h.handler }

// Kinds are handlers by the name of their kind, for [Pool.Kinds].
func Kinds(handlers ...KindHandler) map[string]Handler {
	all := make(map[string]Handler, len(handlers))
	for _, h := range handlers {
		_, h.twice = all[h.kind]
		all[h.kind] = h
	}
	return all
}

// kind checks that the handler of a kind is for that one, if it says which it is for.
func (p *problems) kind(path, pool, kind string, h Handler) {
	if !p.present(path, h) {
		return
	}
	own, ok := unwrap.As[KindHandler](h)
	switch {
	case !ok:
	case own.twice:
		p.add(path, "has two handlers; remove one")
	case own.pool != pool || own.kind != kind:
		where := fmt.Sprintf("pool %.80q", pool)
		if kind != "" {
			where = fmt.Sprintf("kind %.80q of ", kind) + where
		}
		p.add(path, "has the handler of kind %.80q of pool %.80q, and is %s; jobs.Kinds puts it where it belongs", own.kind, own.pool, where)
	}
}
