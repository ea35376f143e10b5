package jobs

import (
	"fmt"
	"slices"
)

// KindError refuses a task that no live replica can run. It is [ErrNoHandler] and [ErrInvalid].
type KindError struct {
	Index   int      // of the task, in the list that was to be enqueued
	Pool    string   // its pool
	Kind    string   // its kind, which may be empty
	Kinds   []string // that the pool has handlers for, sorted; "" is for tasks without a kind
	Nearest string   // the one of them that may have been meant; may be empty
	Waits   bool     // the task is in the pool already, so that force would do nothing for it
}

func (e *KindError) Error() string {
	remedy := "; if replicas that can run it follow, use force"
	if e.Waits {
		remedy = ""
	}
	kinds := slices.DeleteFunc(slices.Clone(e.Kinds), func(kind string) bool { return kind == "" })
	switch {
	case len(e.Kinds) == 0:
		return fmt.Sprintf("pool %s has no handler: give it http, command, shell, func or worker, or kinds, under pools; until then it is for jobs with handlers of their own"+remedy, e.Pool)
	case e.Kind == "":
		return fmt.Sprintf("pool %s has handlers by kind only, and the task has no kind; it has %s"+remedy, e.Pool, some(kinds))
	case e.Nearest != "":
		return fmt.Sprintf("pool %s has no kind %.80q, did you mean %q? It has %s"+remedy, e.Pool, e.Kind, e.Nearest, some(kinds))
	}
	return fmt.Sprintf("pool %s has no kind %.80q; it has %s"+remedy, e.Pool, e.Kind, some(kinds))
}

func (e *KindError) Unwrap() []error { return []error{ErrNoHandler, ErrInvalid} }
